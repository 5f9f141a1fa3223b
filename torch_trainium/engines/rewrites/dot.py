"""Products of matrices by PyTorch's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from jaxlib.mlir.dialects import stablehlo

from torch_trainium.engines import mlir
from torch_trainium.engines.rewrites import strided
from torch_trainium.engines.rewrites.strided import Strided, element_of, shape_of

# By element type: below so many products, and for vectors, XLA's own loops take no more time.
MIN_PRODUCTS = {"f32": 1 << 20, "f64": 1 << 20, "bf16": 1 << 22, "f16": 1 << 22}
MIN_LENGTH = 4
# Kernels accumulate these in float32 and round once.
NARROW = ("bf16", "f16")


def rewrite(operation: Any) -> bool:
    """Replace a `dot_general`, with its rounding where it accumulates in float32."""
    numbers = stablehlo.DotDimensionNumbers(operation.dot_dimension_numbers)
    a, b, product = operation.operands[0], operation.operands[1], operation.results[0]
    batch_a, batch_b = numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions
    contracted_a = numbers.lhs_contracting_dimensions
    contracted_b = numbers.rhs_contracting_dimensions
    free_a, free_b = _free(a, batch_a, contracted_a), _free(b, batch_b, contracted_b)
    rows, length, columns = (
        prod(shape_of(value)[d] for d in dims)
        for value, dims in ((a, free_a), (a, contracted_a), (b, free_b))
    )
    element = element_of(a)
    result = product if element == element_of(product) else _rounded(product, element)
    if result is None or element not in MIN_PRODUCTS:
        return False
    if prod(shape_of(product)) * length < MIN_PRODUCTS[element]:
        return False
    if min(rows, length, columns) < MIN_LENGTH:
        return False
    left = _matrices(a, batch_a, free_a, contracted_a)
    right = _matrices(b, batch_b, contracted_b, free_b)
    sizes = (*left.sizes[:-2], rows, columns)
    out = Strided(result, sizes, strided.dense_strides(sizes))
    (value,) = mlir.custom_call(
        "torch_trainium.kernel.dot",
        [left.source, right.source],
        [result.type],
        {"a": left.attribute(), "b": right.attribute(), "result": out.attribute()},
    )
    result.replace_all_uses_with(value)
    if result != product:
        result.owner.erase()
    operation.erase()
    return True


def _rounded(result: Any, element: str) -> Any:
    """What a float32 is rounded to, if nothing else is done with it; else None."""
    uses = [use.owner for use in result.uses]
    if element not in NARROW or element_of(result) != "f32" or len(uses) != 1:
        return None
    if uses[0].name != "stablehlo.convert" or element_of(uses[0].results[0]) != element:
        return None
    return uses[0].results[0]


def _free(value: Any, batch: Sequence[int], contracted: Sequence[int]) -> list[int]:
    return [d for d in range(len(shape_of(value))) if d not in {*batch, *contracted}]


def _matrices(
    value: Any, batch: Sequence[int], rows: Sequence[int], columns: Sequence[int]
) -> Strided:
    """An operand as a batch of matrices, transposed before where a kernel would copy it."""
    sizes = shape_of(value)
    order = [*batch, *rows, *columns]
    joined = (
        *(sizes[d] for d in batch),
        prod(sizes[d] for d in rows),
        prod(sizes[d] for d in columns),
    )
    view = strided.view_of(value).permute(order).reshape(joined)
    if view is not None and _has_dense_rows(view):
        return view
    if order != sorted(order):
        value = stablehlo.transpose(value, order)
    return Strided(value, joined, strided.dense_strides(joined))


def _has_dense_rows(view: Strided) -> bool:
    """Whether rows, or columns, of each matrix lie in one piece, one behind the other."""
    (rows, columns), (down, across) = view.sizes[-2:], view.strides[-2:]
    return (across == 1 and down >= columns) or (down == 1 and across >= rows)
