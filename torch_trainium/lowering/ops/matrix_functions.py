"""Functions of square matrices."""

from __future__ import annotations

import math

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.matrices import flat_batch, identity
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten

# Terms of the exponential's series; of a norm below 1 the rest is under float64's precision.
TERMS = 18


@lower(aten.linalg_matrix_exp)
def matrix_exp(x: Builder, a: Value) -> Value:
    if not a.size:
        return a
    stack = flat_batch(x, a.to(dtypes.compute_dtype(a.dtype)))
    norm = x.max(x.sum(x.abs(stack), [1], keepdim=True), [2], keepdim=True)
    halvings = x.ceil(x.maximum(x.log(norm) * (1 / math.log(2)), 0))
    small = stack / x.power(2, halvings).to(stack.dtype)
    series = _exponential_series(x, small)
    most = x.max(halvings)

    def square(number: Value, power: Value) -> list[Value]:
        return [number + 1, x.select(number < halvings, x.dot(power, power), power)]

    start = [x.constant(0, halvings.dtype), series]
    result = x.while_(start, lambda number, power: number < most, square)[1]
    return x.reshape(result.to(a.dtype), a.shape)


def _exponential_series(x: Builder, a: Value) -> Value:
    """1 + a (1 + a/2 (1 + a/3 ...))."""
    unit = identity(x, a.dtype, a.shape[:-2], a.shape[-1])
    total = unit
    for term in range(TERMS, 0, -1):
        total = unit + x.dot(a, total) / term
    return total
