"""The same call on the CPU and, as compiled programs, on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import HealthCheck, settings
from torch.utils._pytree import tree_leaves, tree_map

from torch_trainium import eager
from torch_trainium.neuron.cpu_fallbacks import native_means_expressible

Function = Callable[..., Any]


def few(examples: int) -> settings:
    """The same examples in every run; each shape that is drawn compiles programs of its own."""
    slow = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=slow,
    )


def whole_numbers(shape: Any, low: int = -4, high: int = 5) -> torch.Tensor:
    """Floats whose sums and products are exact in any order."""
    return torch.randint(low, high, tuple(shape)).float()


def on_device(function: Function, *args: Any) -> Any:
    """What a function gives as compiled programs, on the CPU; nothing may fall back."""

    def move(value: Any) -> Any:
        return value.to("neuron") if isinstance(value, torch.Tensor) else value

    moved = tree_map(move, args)
    with eager.eager_mode_is("compiled"), native_means_expressible(), eager.fallback_is("error"):
        results = function(*moved)
    return tree_map(lambda v: v.cpu() if isinstance(v, torch.Tensor) else v, results)


def assert_same(function: Function, *args: Any, exact: bool = True) -> None:
    """The device gives the CPU's results for these arguments, or refuses them as it does.

    An index out of range is an IndexError on the device, whichever exception the CPU raises.
    """
    try:
        expected = function(*tree_map(_copy, args))
    except (IndexError, RuntimeError) as refusal:
        try:
            given = on_device(function, *args)
        except (IndexError, type(refusal)):
            return
        raise AssertionError(f"the CPU raised {refusal!r}, the device returned {given}") from None
    actual = on_device(function, *args)
    bounds = {"rtol": 0, "atol": 0} if exact else {}
    torch.testing.assert_close(actual, expected, equal_nan=True, **bounds)


def gradients(function: Function, *inputs: torch.Tensor) -> list[torch.Tensor | None]:
    """A function's results, then the gradients of its inputs under a fixed cotangent."""
    leaves = [t.detach().requires_grad_() for t in inputs]
    results = [r for r in tree_leaves(function(*leaves)) if r.requires_grad]
    cotangents = [torch.arange(r.numel()).remainder(5).sub(2).to(r).view(r.shape) for r in results]
    torch.autograd.backward(results, cotangents)
    return [r.detach() for r in results] + [leaf.grad for leaf in leaves]


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value
