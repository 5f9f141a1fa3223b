"""Sums, products, extremes and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.reductions import reduction_dtype
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


@lower(aten.sum.dim_IntList)
def sum_dim(
    x: Builder,
    a: Value,
    dim: list[int] | None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None,
) -> Value:
    result = dtype or (torch.int64 if dtypes.is_integral(a.dtype) else a.dtype)
    return x.sum(a.to(reduction_dtype(result)), dim, keepdim).to(result)


@lower(aten.sum)
def sum_all(x: Builder, a: Value, *, dtype: torch.dtype | None) -> Value:
    return sum_dim(x, a, None, dtype=dtype)


@lower(aten.amax)
def amax(x: Builder, a: Value, dim: list[int], keepdim: bool) -> Value:
    return x.max(a, dim, keepdim)


@lower(aten.max.dim)
def max_dim(x: Builder, a: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    return x.argmax(a, dim, keepdim)


@lower(aten.var.correction, static=("correction",))
def var(
    x: Builder,
    a: Value,
    dim: Sequence[int] | None,
    *,
    correction: float | None,
    keepdim: bool,
) -> Value:
    dims = x.dimensions(a, dim)
    wide = a.to(dtypes.compute_dtype(a.dtype))
    count = math.prod(a.shape[d] for d in dims)
    mean = x.sum(wide, dims, keepdim=True) * (1 / count if count else math.nan)
    distance = x.abs(wide - mean)
    divisor = max(count - (1 if correction is None else correction), 0)
    total = x.sum(distance * distance, dims, keepdim) if dims else distance * distance
    return (total / divisor).to(dtypes.real_dtype(a.dtype))
