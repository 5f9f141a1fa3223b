"""Sums, products, extremes and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.ops.cumulative import scan
from torch_trainium.lowering.reductions import kept_shape, lowest, reduction_dtype
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


@lower(aten.amin)
def amin(x: Builder, a: Value, dim: list[int], keepdim: bool) -> Value:
    return x.min(a, dim, keepdim)


@lower(aten.aminmax)
def aminmax(x: Builder, a: Value, *, dim: int | None, keepdim: bool) -> tuple[Value, Value]:
    dims = None if dim is None else [dim]
    return x.min(a, dims, keepdim), x.max(a, dims, keepdim)


@lower(aten.max)
def max_(x: Builder, a: Value) -> Value:
    return x.max(a)


@lower(aten.min)
def min_(x: Builder, a: Value) -> Value:
    return x.min(a)


@lower(aten.min.dim)
def min_dim(x: Builder, a: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    return x.argmin(a, dim, keepdim)


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


@lower(aten.median)
def median(x: Builder, a: Value) -> Value:
    return _median(x, x.reshape(a, [a.size]), 0, False, ignore_nan=False)[0]


@lower(aten.nanmedian)
def nanmedian(x: Builder, a: Value) -> Value:
    return _median(x, x.reshape(a, [a.size]), 0, False, ignore_nan=True)[0]


@lower(aten.median.dim)
def median_dim(x: Builder, a: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    return _median(x, a, dim, keepdim, ignore_nan=False)


@lower(aten.nanmedian.dim)
def nanmedian_dim(x: Builder, a: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    return _median(x, a, dim, keepdim, ignore_nan=True)


def _median(x: Builder, a: Value, dim: int, keepdim: bool, ignore_nan: bool) -> tuple[Value, Value]:
    """The lower of two in the middle; one NaN is the median unless those are ignored."""
    if a.rank == 0:
        return a, x.constant(0, torch.int64)
    dim = x.dimension(a, dim)
    length = a.shape[dim]
    if a.size == 0 and length == 0:
        shape = kept_shape(a.shape, [dim]) if keepdim else a.shape[:dim] + a.shape[dim + 1 :]
        nan = x.constant(math.nan, a.dtype, shape)
        return nan, x.constant(0, torch.int64, shape)
    ordered, places = sorted_with_places(x, a, dim)
    numbers = x.sum(ordered.eq(ordered).to(torch.int32), [dim], keepdim=True)
    middle = x.select(numbers.eq(0), 0, (numbers - 1) / 2)
    if not ignore_nan:
        has_nan = numbers < length
        middle = x.select(has_nan, numbers, x.constant((length - 1) // 2, torch.int32))
    chosen = x.iota(torch.int32, a.shape, dim).eq(middle)
    value = _only(x, ordered, chosen, dim, keepdim)
    return value, _only(x, places, chosen, dim, keepdim).to(torch.int64)


def sorted_with_places(x: Builder, a: Value, dim: int) -> tuple[Value, Value]:
    """Ascending, NaN last, and where each element was."""

    def before(left: Value, right: Value, *_: Value) -> Value:
        return (left < right) | (x.is_nan(right) & ~x.is_nan(left))

    ordered, places = x.sort([a, x.iota(torch.int32, a.shape, dim)], dim, before)
    return ordered, places


def _only(x: Builder, a: Value, chosen: Value, dim: int, keepdim: bool) -> Value:
    """The element of each row where `chosen` is true, which it is once."""
    (kept,) = x.reduce([x.select(chosen, a, lowest(a.dtype))], [lowest(a.dtype)], [dim], x.maximum)
    return x.reshape(kept, kept_shape(a.shape, [dim])) if keepdim else kept


@lower(aten.mode)
def mode(x: Builder, a: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    """The smallest of the most frequent elements, and where it is last."""
    if a.rank == 0:
        return a, x.constant(0, torch.int64)
    dim = x.dimension(a, dim)
    ordered, places = sorted_with_places(x, a, dim)
    lengths = _run_lengths(x, ordered, dim)
    longest = x.max(lengths, [dim], keepdim=True)
    at = x.iota(torch.int32, a.shape, dim)
    ends = x.select(lengths.eq(longest), at, a.shape[dim])
    chosen = at.eq(x.min(ends, [dim], keepdim=True))
    value = _only(x, ordered, chosen, dim, keepdim)
    return value, _only(x, places, chosen, dim, keepdim).to(torch.int64)


def _run_lengths(x: Builder, ordered: Value, dim: int) -> Value:
    """Of each element, how many equal ones precede it without a gap, itself included."""
    length = ordered.shape[dim]
    at = x.iota(torch.int32, ordered.shape, dim)
    before = x.slice_in_dim(ordered, dim, 0, length - 1)
    differs = x.slice_in_dim(ordered, dim, 1, length).ne(before)
    first = x.constant(True, torch.bool, kept_shape(ordered.shape, [dim]))
    starts = x.select(x.concatenate([first, differs], dim), at, 0)
    (start,) = scan(x, [starts], dim, lambda s, t: [x.maximum(s[0], t[0])])
    return at - start + 1
