"""Running sums and products by PyTorch's kernels, which go over an array once."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from jaxlib.mlir import ir

from torch_trainium.engines import mlir
from torch_trainium.engines.rewrites.strided import element_of, shape_of, view_of

TARGETS = {"stablehlo.add": "cumulative_sum", "stablehlo.multiply": "cumulative_product"}
ELEMENTS = ("f32", "f64", "i32", "i64")
# Below, XLA's own loops take no more time than a call.
MIN_ELEMENTS = 1 << 11
MIN_LENGTH = 1 << 7


@dataclass(frozen=True)
class Step:
    """One step of a scan that doubles its reach: each element joined with an earlier one."""

    source: Any
    joined_by: str
    dim: int
    reach: int


def rewrite(operation: Any) -> bool:
    """Replace the `concatenate` that ends a scan after Hillis and Steele, as lowerings write it."""
    result = operation.results[0]
    last = _step(operation)
    if last is None or element_of(result) not in ELEMENTS:
        return False
    length = shape_of(result)[last.dim]
    if length < MIN_LENGTH or prod(shape_of(result)) < MIN_ELEMENTS or 2 * last.reach < length:
        return False
    first = last
    while first.reach > 1:
        before = _step(first.source.owner)
        expected = (first.joined_by, first.dim, first.reach // 2)
        if before is None or (before.joined_by, before.dim, before.reach) != expected:
            return False
        first = before
    source = view_of(first.source)
    integer = ir.IntegerType.get_signless(64)
    (value,) = mlir.custom_call(
        f"torch_trainium.kernel.{TARGETS[last.joined_by]}",
        [source.source],
        [result.type],
        {"a": source.attribute(), "dim": ir.IntegerAttr.get(integer, last.dim)},
    )
    result.replace_all_uses_with(value)
    operation.erase()
    return True


def _step(operation: Any) -> Step | None:
    """A step that ends with this operation: the head, behind it the later joined with the earlier.

    The head is as long as the reach.
    """
    if not _is(operation, "concatenate") or len(operation.operands) != 2:
        return None
    head, joined = _owners(operation.operands)
    if not _is(head, "slice") or not isinstance(joined, ir.OpView) or joined.name not in TARGETS:
        return None
    earlier, later = _owners(joined.operands)
    source, dim = head.operands[0], operation.dimension.value
    if not _is(earlier, "slice") or not _is(later, "slice"):
        return None
    if any(part.operands[0] != source for part in (earlier, later)):
        return None
    sizes = shape_of(source)
    reach = shape_of(head.results[0])[dim]
    length = sizes[dim]
    spans = [(head, 0, reach), (earlier, 0, length - reach), (later, reach, length)]
    if not all(_takes(part, sizes, dim, start, end) for part, start, end in spans):
        return None
    return Step(source, joined.name, dim, reach)


def _owners(values: Any) -> list[Any]:
    return [value.owner for value in values]


def _is(operation: Any, name: str) -> bool:
    return isinstance(operation, ir.OpView) and operation.name == f"stablehlo.{name}"


def _takes(part: Any, sizes: tuple[int, ...], dim: int, start: int, end: int) -> bool:
    """Whether a slice is what lies between two places of a dimension, all of the others."""
    starts, ends = [0] * len(sizes), list(sizes)
    starts[dim], ends[dim] = start, end
    is_dense = all(step == 1 for step in part.strides)
    return list(part.start_indices) == starts and list(part.limit_indices) == ends and is_dense
