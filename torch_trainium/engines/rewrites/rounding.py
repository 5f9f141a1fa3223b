"""Results in float32 that are rounded to operands' narrower type, as kernels round them."""

from __future__ import annotations

from typing import Any

from torch_trainium.engines.rewrites.strided import element_of

NARROW = ("bf16", "f16")


def rounded(result: Any, element: str) -> Any:
    """What a float32 is rounded to, if nothing else is done with it; else None."""
    uses = [use.owner for use in result.uses]
    if element not in NARROW or element_of(result) != "f32" or len(uses) != 1:
        return None
    if uses[0].name != "stablehlo.convert" or element_of(uses[0].results[0]) != element:
        return None
    return uses[0].results[0]


def replace(operation: Any, result: Any, value: Any) -> None:
    """Put a value in the place of an operation's result, or of what that is rounded to."""
    result.replace_all_uses_with(value)
    if result != operation.results[0]:
        result.owner.erase()
    operation.erase()
