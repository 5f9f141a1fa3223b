"""Sums, products, extremes and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.reductions import kept_shape, reduction_dtype
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
    return x.argmax(_not_empty(x, a, "max", dim), dim, keepdim)


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


@lower(aten.amin)
def amin(x: Builder, a: Value, dim: list[int], keepdim: bool) -> Value:
    return x.min(a, dim, keepdim)


@lower(aten.aminmax)
def aminmax(x: Builder, a: Value, *, dim: int | None, keepdim: bool) -> tuple[Value, Value]:
    dims = None if dim is None else [dim]
    return x.min(a, dims, keepdim), x.max(a, dims, keepdim)


@lower(aten.max)
def max_(x: Builder, a: Value) -> Value:
    return x.max(_not_empty(x, a, "max"))


@lower(aten.min)
def min_(x: Builder, a: Value) -> Value:
    return x.min(_not_empty(x, a, "min"))


def _not_empty(x: Builder, a: Value, name: str, dim: int | None = None) -> Value:
    """An extreme needs an element: of all of them, or along a dimension of what is not empty."""
    if dim is None and not a.size:
        raise LoweringError(f"{name}() of a tensor without elements; give it one, or a dim")
    if dim is not None and a.rank and not a.shape[x.dimension(a, dim)]:
        raise LoweringError(f"{name}(): dim {dim} has length 0; choose one with elements")
    return a


@lower(aten.min.dim)
def min_dim(x: Builder, a: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    return x.argmin(_not_empty(x, a, "min", dim), dim, keepdim)


@lower(aten.argmax)
def argmax(x: Builder, a: Value, dim: int | None, keepdim: bool) -> Value:
    _, at = x.argmax(*_in_one_dimension(x, a, dim), keepdim)
    return x.reshape(at, [1] * a.rank) if dim is None and keepdim else at


@lower(aten.argmin)
def argmin(x: Builder, a: Value, dim: int | None, keepdim: bool) -> Value:
    _, at = x.argmin(*_in_one_dimension(x, a, dim), keepdim)
    return x.reshape(at, [1] * a.rank) if dim is None and keepdim else at


def _in_one_dimension(x: Builder, a: Value, dim: int | None) -> tuple[Value, int]:
    return (x.reshape(a, [a.size]), 0) if dim is None else (a, dim)


@lower(aten.any, aten.any.dims)
def any_(x: Builder, a: Value, dim: list[int] | None = None, keepdim: bool = False) -> Value:
    return x.any(a, dim, keepdim).to(_truth_dtype(a))


@lower(aten.any.dim)
def any_dim(x: Builder, a: Value, dim: int, keepdim: bool) -> Value:
    return any_(x, a, [dim], keepdim)


@lower(aten.all, aten.all.dims)
def all_(x: Builder, a: Value, dim: list[int] | None = None, keepdim: bool = False) -> Value:
    return x.all(a, dim, keepdim).to(_truth_dtype(a))


@lower(aten.all.dim)
def all_dim(x: Builder, a: Value, dim: int, keepdim: bool) -> Value:
    return all_(x, a, [dim], keepdim)


def _truth_dtype(a: Value) -> torch.dtype:
    return torch.uint8 if a.dtype is torch.uint8 else torch.bool


@lower(aten.mean.dim)
def mean_dim(
    x: Builder,
    a: Value,
    dim: list[int] | None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None,
) -> Value:
    result = dtype or a.dtype
    wide = a.to(result).to(dtypes.compute_dtype(result))
    count = math.prod(a.shape[d] for d in x.dimensions(a, dim))
    return (x.sum(wide, dim, keepdim) / (count or math.nan)).to(result)


@lower(aten.mean)
def mean_all(x: Builder, a: Value, *, dtype: torch.dtype | None) -> Value:
    return mean_dim(x, a, None, dtype=dtype)


@lower(aten.prod.dim_int)
def prod_dim(
    x: Builder, a: Value, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None
) -> Value:
    return _product(x, a, [dim], keepdim, dtype)


@lower(aten.prod)
def prod_all(x: Builder, a: Value, *, dtype: torch.dtype | None) -> Value:
    return _product(x, a, None, False, dtype)


def _product(
    x: Builder, a: Value, dims: list[int] | None, keepdim: bool, dtype: torch.dtype | None
) -> Value:
    result = dtype or (torch.int64 if dtypes.is_integral(a.dtype) else a.dtype)
    return x.product(a.to(result).to(reduction_dtype(result)), dims, keepdim).to(result)


@lower(aten.hash_tensor)
def hash_tensor(x: Builder, a: Value, dim: list[int], *, keepdim: bool) -> Value:
    """The exclusive or of all bits, of floats as float64 has them."""
    dims = x.dimensions(a, dim)
    is_float = a.dtype.is_floating_point
    bits = x.bitcast(a.to(torch.float64), torch.uint64) if is_float else a.to(torch.uint64)
    (folded,) = x.reduce([bits], [0], dims, x.xor)
    return x.reshape(folded, kept_shape(a.shape, dims)) if keepdim else folded
