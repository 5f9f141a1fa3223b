"""What a program consists of, in the words of the legality rules.

A word, or token, is

    operation [":" qualifier {"+" qualifier}] ["@" element type]      or      "@" element type

with StableHLO's names: `add`; `reduce:maximum`, after what the fold combines with;
`scatter:add@i64`, where the element type decides; `convolution:stride+input_dilation`, after how
it is used; `@f64` for an element type that some array in the program has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Operations whose first region says what they combine elements with, or nothing where a scatter
# only places them.
FOLDS = ("reduce", "reduce_window", "scatter")
# Operations whose legality depends on their first operand's element type.
TYPED = ("dot", "dot_general", "power", "shift_right_arithmetic", "top_k")
# Attributes that are a use of their own where an entry is not 1, by operation, in this order.
USES = {
    "convolution": (
        ("window_strides", "stride"),
        ("lhs_dilation", "input_dilation"),
        ("rhs_dilation", "kernel_dilation"),
    ),
    "reduce_window": (
        ("base_dilations", "base_dilation"),
        ("window_dilations", "window_dilation"),
    ),
}
# Operations whose regions are not made of operations that run, but say what these do.
OPAQUE = (*FOLDS, "sort", "select_and_scatter")


def tokens_of(module: bytes) -> set[str]:
    """The tokens of a module in MLIR bytecode."""
    from jaxlib.mlir import ir

    from torch_trainium.engines import mlir

    with mlir.context(), ir.Location.unknown():
        return set(_tokens(ir.Module.parse(module).operation))


def _tokens(operation: Any) -> Iterator[str]:
    for region in operation.regions:
        for block in region.blocks:
            yield from (f"@{_element_type(argument)}" for argument in block.arguments)
            for view in block.operations:
                inner = view.operation
                dialect, _, name = inner.name.partition(".")
                # CHLO's functions become arithmetic, but for this one, which is the compiler's.
                if (dialect == "stablehlo" and name != "return") or inner.name == "chlo.top_k":
                    yield _token(inner, name)
                    yield from (f"@{_element_type(result)}" for result in inner.results)
                if name not in OPAQUE:
                    yield from _tokens(inner)


def _token(operation: Any, name: str) -> str:
    qualifiers = list(_qualifiers(operation, name))
    token = name + (":" + "+".join(qualifiers) if qualifiers else "")
    is_typed = name in TYPED or (name == "scatter" and qualifiers)
    return f"{token}@{_element_type(operation.operands[0])}" if is_typed else token


def _qualifiers(operation: Any, name: str) -> Iterator[str]:
    if name == "custom_call":
        yield operation.attributes["call_target_name"].value
    if name in FOLDS:
        body = [inner.operation.name for inner in operation.regions[0].blocks[0].operations]
        if len(body) > 1:
            yield body[0].partition(".")[2] if len(body) == 2 else "several"
    for attribute, use in USES.get(name, ()):
        if attribute in operation.attributes and any(
            n != 1 for n in operation.attributes[attribute]
        ):
            yield use


def _element_type(value: Any) -> str:
    text = str(value.type)  # tensor<2x3xf32>, tensor<complex<f32>>
    inside = text.removeprefix("tensor<").removesuffix(">")
    start = inside.find("complex")
    return inside[start:] if start >= 0 else inside.rpartition("x")[2]
