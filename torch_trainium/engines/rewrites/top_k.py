"""The largest elements, or all in order, without comparing each with the others."""

from __future__ import annotations

from math import prod
from typing import Any

from torch_trainium.engines import mlir
from torch_trainium.engines.rewrites.strided import element_of, shape_of

# Below, or for few of many, XLA's own loops take no more time than a call.
MIN_ELEMENTS = 1 << 7
MIN_COUNT = 1 << 4
MAX_LENGTH_BY_COUNT = 1 << 5


def rewrite(operation: Any) -> bool:
    """Replace a `top_k` of float32."""
    (keys,) = operation.operands
    length, count = shape_of(keys)[-1], shape_of(operation.results[0])[-1]
    if element_of(keys) != "f32" or prod(shape_of(keys)) < MIN_ELEMENTS:
        return False
    if count < MIN_COUNT or length > count * MAX_LENGTH_BY_COUNT:
        return False
    types = [result.type for result in operation.results]
    values = mlir.custom_call("torch_trainium.kernel.top_k", [keys], types)
    for result, value in zip(operation.results, values, strict=True):
        result.replace_all_uses_with(value)
    operation.erase()
    return True
