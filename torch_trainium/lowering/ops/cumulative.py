"""Running sums, products, extremes, and differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.ops.functions import logaddexp
from torch_trainium.lowering.reductions import reduction_dtype
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten

# Two stretches of a running fold, the earlier first, to one.
Join = Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]


@lower(aten.cumsum)
def cumsum(x: Builder, a: Value, dim: int, *, dtype: torch.dtype | None) -> Value:
    result = _result_dtype(a, dtype)
    wide = a.to(result).to(reduction_dtype(result))
    return _scan_one(x, wide, dim, x.add).to(result)


@lower(aten.cumprod)
def cumprod(x: Builder, a: Value, dim: int, *, dtype: torch.dtype | None) -> Value:
    result = _result_dtype(a, dtype)
    wide = a.to(result).to(reduction_dtype(result))
    return _scan_one(x, wide, dim, x.multiply).to(result)


@lower(aten.logcumsumexp, aten._logcumsumexp)
def logcumsumexp(x: Builder, a: Value, dim: int) -> Value:
    wide = a.to(dtypes.compute_dtype(a.dtype))
    return _scan_one(x, wide, dim, lambda s, t: logaddexp(x, s, t)).to(a.dtype)


@lower(aten.cummax)
def cummax(x: Builder, a: Value, dim: int) -> tuple[Value, Value]:
    return _extremes(x, a, dim, "GE")


@lower(aten.cummin)
def cummin(x: Builder, a: Value, dim: int) -> tuple[Value, Value]:
    return _extremes(x, a, dim, "LE")


def scan(x: Builder, values: Sequence[Value], dim: int, join: Join) -> list[Value]:
    """Running folds: every step doubles how far back an element has looked.

    After Hillis and Steele (1986): log2(n) elementwise operations on the whole array.
    """
    length = values[0].shape[dim]
    values, reach = list(values), 1
    while reach < length:
        earlier = [x.slice_in_dim(v, dim, 0, length - reach) for v in values]
        later = [x.slice_in_dim(v, dim, reach, length) for v in values]
        joined = join(earlier, later)
        values = [
            x.concatenate([x.slice_in_dim(v, dim, 0, reach), j], dim)
            for v, j in zip(values, joined, strict=True)
        ]
        reach *= 2
    return values


def _scan_one(x: Builder, a: Value, dim: int, join: Callable[[Value, Value], Value]) -> Value:
    if a.rank == 0 or a.size == 0:
        return a
    (result,) = scan(x, [a], x.dimension(a, dim), lambda s, t: [join(s[0], t[0])])
    return result


def _extremes(x: Builder, a: Value, dim: int, direction: str) -> tuple[Value, Value]:
    """The last of equal elements counts, and so does the last NaN."""
    if a.rank == 0 or a.size == 0:
        return a, x.constant(0, torch.int64, a.shape)

    def join(earlier: Sequence[Value], later: Sequence[Value]) -> list[Value]:
        take = x.compare(later[0], direction, earlier[0]) | x.is_nan(later[0])
        return [x.select(take, new, old) for old, new in zip(earlier, later, strict=True)]

    dim = x.dimension(a, dim)
    value, at = scan(x, [a, x.iota(torch.int32, a.shape, dim)], dim, join)
    return value, at.to(torch.int64)


def _result_dtype(a: Value, dtype: torch.dtype | None) -> torch.dtype:
    return dtype or (torch.int64 if dtypes.is_integral(a.dtype) else a.dtype)
