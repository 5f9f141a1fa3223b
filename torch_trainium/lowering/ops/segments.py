"""Reductions of consecutive stretches of rows."""

from __future__ import annotations

import math

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Number, Operand, Value

aten = torch.ops.aten

IDENTITIES: dict[str, Number] = {
    "sum": 0.0,
    "mean": 0.0,
    "prod": 1.0,
    "max": -math.inf,
    "min": math.inf,
}


@lower(aten.segment_reduce)
def segment_reduce(
    x: Builder,
    data: Value,
    reduce: str,
    *,
    lengths: Value | None,
    offsets: Value | None,
    axis: int,
    unsafe: bool,
    initial: Operand | None,
) -> Value:
    axis = x.dimension(data, axis)
    rows = _rows(x, data.to(dtypes.compute_dtype(data.dtype)), axis)
    member, sizes = _members(x, rows, lengths, offsets)
    if not unsafe:
        total = x.sum(sizes, [1])
        failed = x.any(sizes < 0, [1]) | total.ne(rows.shape[1])
        x.check(failed, RuntimeError, "lengths must be non-negative and add up to the rows of data")
    folded = _fold(x, rows, member, reduce, initial)
    if reduce == "mean":
        count = x.unsqueeze(sizes, 2).to(folded.dtype)
        empty = x.constant(math.nan, folded.dtype) if initial is None else folded
        folded = x.select(count.eq(0), empty, folded / count)
    shape = [*data.shape[:axis], sizes.shape[1], *data.shape[axis + 1 :]]
    return x.reshape(folded, shape).to(data.dtype)


@lower(aten._segment_reduce_backward)
def segment_reduce_backward(
    x: Builder,
    grad: Value,
    output: Value,
    data: Value,
    reduce: str,
    *,
    lengths: Value | None,
    offsets: Value | None,
    axis: int,
    initial: Operand | None,
) -> Value:
    axis = x.dimension(data, axis)
    wide = dtypes.compute_dtype(data.dtype)
    rows, grads, outputs = (_rows(x, v.to(wide), axis) for v in (data, grad, output))
    member, sizes = _members(x, rows, lengths, offsets)
    if reduce == "mean":
        grads = grads / x.unsqueeze(sizes, 2).to(wide)
    each = _own(x, grads, member)
    if reduce in ("max", "min"):
        hit = rows.eq(_own(x, outputs, member)) | x.is_nan(rows)
        ties = _fold(x, hit.to(wide), member, "sum", None)
        each = x.select(hit, each / _own(x, ties, member), 0)
    elif reduce == "prod":
        each = each * _product_of_others(x, rows, outputs, member, initial)
    return x.reshape(each, data.shape).to(data.dtype)


def _rows(x: Builder, a: Value, axis: int) -> Value:
    """As [batches, rows, elements of a row]."""
    return x.reshape(a, [math.prod(a.shape[:axis]), a.shape[axis], math.prod(a.shape[axis + 1 :])])


def _members(
    x: Builder, rows: Value, lengths: Value | None, offsets: Value | None
) -> tuple[Value, Value]:
    """Whether a row is in a segment, [batches, segments, rows], and the segments' sizes."""
    batches, count, _ = rows.shape
    if offsets is not None:
        bounds = x.reshape(offsets, [batches, offsets.shape[-1]])
        segments = bounds.shape[1] - 1
        starts = x.slice_in_dim(bounds, 1, 0, segments)
        ends = x.slice_in_dim(bounds, 1, 1, segments + 1)
    else:
        assert lengths is not None
        sizes = x.reshape(lengths, [batches, lengths.shape[-1]])
        ends = x.call(aten.cumsum.default, sizes, 1).to(sizes.dtype)
        starts = ends - sizes
    at = x.iota(ends.dtype, [1, 1, count], 2)
    member = (at >= x.unsqueeze(starts, 2)) & (at < x.unsqueeze(ends, 2))
    return member, ends - starts


def _fold(x: Builder, rows: Value, member: Value, reduce: str, initial: Operand | None) -> Value:
    """[batches, segments, elements of a row]."""
    identity = IDENTITIES[reduce]
    each = x.select(x.unsqueeze(member, 3), x.unsqueeze(rows, 1), identity)
    fold = {"prod": x.product, "max": x.max, "min": x.min}.get(reduce, x.sum)
    join = {"prod": x.multiply, "max": x.maximum, "min": x.minimum}.get(reduce, x.add)
    folded = fold(each, [2])
    return folded if initial is None else join(folded, x.number(initial, rows.dtype))


def _own(x: Builder, segments: Value, member: Value) -> Value:
    """Of each row, what its segment has."""
    return x.sum(x.select(x.unsqueeze(member, 3), x.unsqueeze(segments, 2), 0), [1])


def _product_of_others(
    x: Builder, rows: Value, outputs: Value, member: Value, initial: Operand | None
) -> Value:
    """The product divided by the row's element, which cannot be divided by if it is zero or NaN."""
    special = rows.eq(0) | x.is_nan(rows)
    many = _fold(x, special.to(rows.dtype), member, "sum", None)
    rest = _fold(x, x.select(special, 1, rows), member, "prod", initial)
    alone = _own(x, many, member).eq(1)
    whole = _own(x, outputs, member)
    others = x.select(alone, _own(x, rest, member), whole)
    return x.select(special, others, whole / x.select(special, 1, rows))
