"""Gathering from, and writing to, one element for each index."""

from __future__ import annotations

from collections.abc import Callable

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.ops.indexing import put_along
from torch_trainium.lowering.reductions import Combine, highest, lowest
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Number, Operand, Value

aten = torch.ops.aten

Put = Callable[[Value, Value, Combine | None], Value]


@lower(aten.gather)
def gather(x: Builder, a: Value, dim: int, index: Value, *, sparse_grad: bool) -> Value:
    rows = a if a.rank else x.reshape(a, [1])
    places = _places(x, rows, dim, index)
    return x.reshape(x.take_elements(rows, places), index.shape)


@lower(aten.scatter.src)
def scatter(x: Builder, a: Value, dim: int, index: Value, source: Value) -> Value:
    return _put(x, a, dim, index, source, None)


@lower(aten.scatter.value)
def scatter_value(x: Builder, a: Value, dim: int, index: Value, value: Operand) -> Value:
    return _put(x, a, dim, index, x.broadcast(x.number(value, a.dtype), index.shape), None)


@lower(aten.scatter_add)
def scatter_add(x: Builder, a: Value, dim: int, index: Value, source: Value) -> Value:
    return scatter_reduce(x, a, dim, index, source, reduce="sum", include_self=True)


@lower(aten.scatter.reduce)
def scatter_with(
    x: Builder, a: Value, dim: int, index: Value, source: Value, *, reduce: str
) -> Value:
    return scatter_reduce(x, a, dim, index, source, reduce=reduce, include_self=True)


@lower(aten.scatter.value_reduce)
def scatter_value_with(
    x: Builder, a: Value, dim: int, index: Value, value: Operand, *, reduce: str
) -> Value:
    source = x.broadcast(x.number(value, a.dtype), index.shape)
    return scatter_reduce(x, a, dim, index, source, reduce=reduce, include_self=True)


@lower(aten.scatter_reduce.two)
def scatter_reduce(
    x: Builder,
    a: Value,
    dim: int,
    index: Value,
    source: Value,
    reduce: str,
    *,
    include_self: bool,
) -> Value:
    def put(target: Value, updates: Value, combine: Combine | None) -> Value:
        return _put(x, target, dim, index, updates, combine)

    return _reduce_into(x, a, source, put, reduce, include_self)


@lower(aten.index_reduce)
def index_reduce(
    x: Builder,
    a: Value,
    dim: int,
    index: Value,
    source: Value,
    reduce: str,
    *,
    include_self: bool,
) -> Value:
    def put(target: Value, updates: Value, combine: Combine | None) -> Value:
        return put_along(x, target, dim, index, updates, combine)

    return _reduce_into(x, a, source, put, reduce, include_self)


def _reduce_into(
    x: Builder, a: Value, source: Value, put: Put, reduce: str, include_self: bool
) -> Value:
    """`a` with updates combined into it; where it is not included, only what none reaches."""
    wide = dtypes.scatter_dtype(a.dtype)
    start, updates = a.to(wide), source.to(wide)
    combine, identity = _reduction(x, reduce, wide)
    if not include_self:
        start = put(start, x.constant(identity, wide, source.shape), None)
    combined = put(start, updates, combine)
    if reduce == "mean":
        counting = dtypes.counting_dtype(source.size + 1)
        ones = x.constant(1, counting, source.shape)
        own = x.constant(int(include_self), counting, a.shape)
        count = x.maximum(put(own, ones, x.add), 1)
        combined = _quotient(x, combined, count.to(wide))
    return combined.to(a.dtype)


def _reduction(x: Builder, reduce: str, dtype: torch.dtype) -> tuple[Combine, Number]:
    if reduce in ("sum", "add", "mean"):
        return x.add, 0
    if reduce in ("prod", "multiply"):
        return x.multiply, 1
    return (x.minimum, highest(dtype)) if reduce == "amin" else (x.maximum, lowest(dtype))


def _quotient(x: Builder, a: Value, count: Value) -> Value:
    if not dtypes.is_integral(a.dtype):
        return a / count
    rounded_up = x.remainder(a, count) < 0 if a.dtype.is_signed else None
    quotient = a / count
    return quotient if rounded_up is None else x.select(rounded_up, quotient - 1, quotient)


def _put(
    x: Builder, a: Value, dim: int, index: Value, source: Value, combine: Combine | None
) -> Value:
    if not index.size:
        return a
    rows = a if a.rank else x.reshape(a, [1])
    places = _places(x, rows, dim, index)
    shape = places[0].shape
    source = source if source.rank else x.reshape(source, [1])
    updates = x.slice(source, [0] * len(shape), shape)
    return x.reshape(x.put_elements(rows, places, updates, combine), a.shape)


def _places(x: Builder, a: Value, dim: int, index: Value) -> list[Value]:
    """For each index all coordinates: its own position, but for `dim`."""
    dim = x.dimension(a, dim)
    length = a.shape[dim]
    x.check(
        (index < 0) | (index >= length),
        IndexError,
        f"index is out of bounds for dimension {dim} with size {length}",
    )
    index = index if index.rank else x.reshape(index, [1])
    own = index.to(torch.int32)
    return [own if d == dim else x.iota(torch.int32, index.shape, d) for d in range(a.rank)]
