"""Sorting, order statistics and searches; NaN comes after every number."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from torch_trainium.lowering import dtypes, promotion
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.reductions import kept_shape
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Operand, Value

aten = torch.ops.aten

Pair = tuple[Value, Value]

# How many bits of an integer a float32 holds exactly, at most 24, to divide 64 into few parts.
DIGIT_BITS = 22


@lower(aten.sort.stable)
def sort_stable(x: Builder, a: Value, *, stable: bool | None, dim: int, descending: bool) -> Pair:
    return sort(x, a, dim, descending)


@lower(aten.sort)
def sort(x: Builder, a: Value, dim: int, descending: bool) -> Pair:
    if a.rank == 0 or not a.size:
        return a, x.constant(0, torch.int64, a.shape)
    values, at = ordered(x, a, dim, descending)
    return values, at.to(torch.int64)


@lower(aten.topk)
def topk(x: Builder, a: Value, k: int, dim: int, largest: bool, sorted_: bool) -> Pair:
    if a.rank == 0:
        return (a, x.constant(0, torch.int64)) if k else _nothing(x, a)
    dim = x.dimension(a, dim)
    if not a.size or not k:
        shape = [k if d == dim else n for d, n in enumerate(a.shape)]
        return x.constant(0, a.dtype, shape), x.constant(0, torch.int64, shape)
    values, at = ordered(x, a, dim, largest, k)
    return values, at.to(torch.int64)


@lower(aten.kthvalue)
def kthvalue(x: Builder, a: Value, k: int, dim: int, keepdim: bool) -> Pair:
    if a.rank == 0 or not a.size:
        return _of_one_or_none(x, a, dim, keepdim)
    values, at = ordered(x, a, dim, False, k)
    return _last(x, values, dim, keepdim), _last(x, at, dim, keepdim).to(torch.int64)


@lower(aten.median.dim)
def median_dim(x: Builder, a: Value, dim: int, keepdim: bool) -> Pair:
    return _median(x, a, dim, keepdim, ignore_nan=False)


@lower(aten.nanmedian.dim)
def nanmedian_dim(x: Builder, a: Value, dim: int, keepdim: bool) -> Pair:
    return _median(x, a, dim, keepdim, ignore_nan=True)


@lower(aten.median)
def median(x: Builder, a: Value) -> Value:
    return _median_of_all(x, a, ignore_nan=False)


@lower(aten.nanmedian)
def nanmedian(x: Builder, a: Value) -> Value:
    return _median_of_all(x, a, ignore_nan=True)


@lower(aten.mode)
def mode(x: Builder, a: Value, dim: int, keepdim: bool) -> Pair:
    if a.rank == 0 or not a.size:
        return _of_one_or_none(x, a, dim, keepdim)
    dim = x.dimension(a, dim)
    length = a.shape[dim]
    values, at = ordered(x, a, dim, False)
    differs = x.slice_in_dim(values, dim, 1, length).ne(x.slice_in_dim(values, dim, 0, length - 1))
    low, high = [0] * a.rank, [0] * a.rank
    low[dim] = high[dim] = 1
    starts = x.pad(differs, True, low, [0] * a.rank)
    ends = x.pad(differs, True, [0] * a.rank, high)
    position = x.iota(torch.int32, a.shape, dim)
    first = _running_max(x, x.select(starts, position, 0), dim)
    run = x.select(ends, position - first + 1, 0)
    _, best = x.argmax(run, dim, keepdim=True)
    return _pick_at(x, values, at, dim, best, keepdim)


# Searches


@lower(aten.searchsorted.Tensor, aten.searchsorted.Scalar)
def searchsorted(
    x: Builder,
    boundaries: Value,
    a: Operand,
    *,
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: Value | None,
) -> Value:
    dtype = promotion.result_dtype([boundaries, a])
    wanted = x.number(a, dtype)
    length = boundaries.shape[-1]
    if sorter is not None:
        x.check((sorter < 0) | (sorter >= length), IndexError, "sorter index out of range")
    upper = right or side == "right"
    found = search(x, boundaries.to(dtype), wanted, sorter, upper)
    return found.to(torch.int32 if out_int32 else torch.int64)


@lower(aten.bucketize.Tensor, aten.bucketize.Scalar)
def bucketize(x: Builder, a: Operand, boundaries: Value, *, out_int32: bool, right: bool) -> Value:
    return searchsorted(x, boundaries, a, out_int32=out_int32, right=right, side=None, sorter=None)


def search(
    x: Builder, boundaries: Value, wanted: Value, sorter: Value | None, upper: bool
) -> Value:
    """How many boundaries of its row come before each element, by halving."""
    length = boundaries.shape[-1]
    low = x.constant(0, torch.int32, wanted.shape)
    high = x.constant(length, torch.int32, wanted.shape)
    if not wanted.size:
        return low
    rows = [x.iota(torch.int32, wanted.shape, d) for d in range(boundaries.rank - 1)]
    for _ in range(length.bit_length()):
        middle = low + x.shift_right(high - low, 1)
        inside = x.minimum(middle, length - 1)
        if sorter is not None:
            inside = x.take_elements(sorter.to(torch.int32), [*rows, inside])
        bound = x.take_elements(boundaries, [*rows, inside])
        # With NaN neither holds, and the search goes on behind it.
        stays = bound > wanted if upper else bound >= wanted
        active = low < high
        high = x.select(active & stays, middle, high)
        low = x.select(active & ~stays, middle + 1, low)
    return low


# Parts


def ordered(x: Builder, a: Value, dim: int, descending: bool, count: int | None = None) -> Pair:
    """The first `count` elements in order along a dimension, or all, and their int32 positions.

    Of equals the first comes first; NaN is the largest number. The targets have no sort, but find
    the largest elements.
    """
    dim = x.dimension(a, dim)
    order = list(range(a.rank))
    order[dim], order[-1] = order[-1], order[dim]
    rows = x.transpose(a, order)
    at = order_by(x, _keys(x, rows, descending), count or a.shape[dim])
    return x.transpose(_take_along(x, rows, at), order), x.transpose(at, order)


def order_by(x: Builder, keys: Sequence[Value], count: int) -> Value:
    """Positions of the `count` largest along the last dimension, in order, as int32.

    The keys are real numbers of one shape, the least significant first. Of equals the first comes
    first.
    """
    length = keys[0].shape[-1]
    # Each key in its turn keeps the order of the equals before it.
    at = x.top_k(keys[0], length if len(keys) > 1 else count)[1]
    for i, key in enumerate(keys[1:], 2):
        moved = x.top_k(_take_along(x, key, at), length if i < len(keys) else count)[1]
        at = _take_along(x, at, moved)
    return at


def digits(x: Builder, bits: Value) -> list[Value]:
    """Keys that order integers as their bits do without a sign, the largest first."""
    mask = 2**DIGIT_BITS - 1
    return [
        (x.shift_right_logical(bits, shift) & mask).to(torch.float32)
        for shift in range(0, bits.dtype.itemsize * 8, DIGIT_BITS)
    ]


def _keys(x: Builder, a: Value, descending: bool) -> list[Value]:
    """What orders elements, largest first, as real numbers: top-k takes no integers there."""
    if a.dtype.is_floating_point:
        wide = a.to(dtypes.compute_dtype(a.dtype))
        key, nan = (wide, math.nan) if descending else (-wide, -math.nan)
        # Zeros of both signs are equal, and NaN of both.
        return [x.select(x.is_nan(key), nan, x.select(key.eq(0), 0, key))]
    if a.dtype.itemsize <= 2:
        key = a.to(torch.float32)
        return [key if descending else -key]
    bits = a if descending else ~a
    if a.dtype.is_signed:
        sign = x.constant(torch.iinfo(a.dtype).min, a.dtype)
        bits = bits ^ sign  # now in the order of unsigned numbers
    return digits(x, bits)


def _take_along(x: Builder, a: Value, at: Value) -> Value:
    """Elements of each row, at positions along the last dimension."""
    lead = [x.iota(torch.int32, at.shape, d) for d in range(a.rank - 1)]
    return x.take_elements(a, [*lead, at])


def _median(x: Builder, a: Value, dim: int, keepdim: bool, *, ignore_nan: bool) -> Pair:
    """The lower of the two in the middle; the first NaN, unless they are ignored."""
    if a.rank == 0 or not a.size:
        return _of_one_or_none(x, a, dim, keepdim)
    dim = x.dimension(a, dim)
    values, at = ordered(x, a, dim, False)
    place = _middle(x, a, dim, ignore_nan)
    return _pick_at(x, values, at, dim, place, keepdim)


def _median_of_all(x: Builder, a: Value, *, ignore_nan: bool) -> Value:
    if not a.size:
        if a.dtype.is_floating_point:
            return x.constant(float("nan"), a.dtype)
        return x.constant(torch.iinfo(a.dtype).min, a.dtype)
    value, _ = _median(x, x.reshape(a, [a.size]), 0, False, ignore_nan=ignore_nan)
    return value


def _middle(x: Builder, a: Value, dim: int, ignore_nan: bool) -> Value:
    """Where the median lies in the sorted order, with length 1 in `dim`."""
    length = a.shape[dim]
    middle = (length - 1) // 2
    shape = kept_shape(a.shape, [dim])
    if not a.dtype.is_floating_point:
        return x.constant(middle, torch.int32, shape)
    numbers = length - x.sum(x.is_nan(a).to(torch.int32), [dim], keepdim=True)
    if ignore_nan:
        return x.maximum(x.shift_right(numbers - 1, 1), 0)
    return x.select(numbers < length, numbers, middle)


def _last(x: Builder, a: Value, dim: int, keepdim: bool) -> Value:
    dim = x.dimension(a, dim)
    one = x.slice_in_dim(a, dim, a.shape[dim] - 1, a.shape[dim])
    return one if keepdim else x.squeeze(one, [dim])


def _pick_at(x: Builder, a: Value, at: Value, dim: int, place: Value, keepdim: bool) -> Pair:
    """The element and the position in one place of each row; it has length 1 in `dim`."""
    own = place.to(torch.int32)
    places = [own if d == dim else x.iota(torch.int32, place.shape, d) for d in range(a.rank)]
    picked = [x.take_elements(v, places) for v in (a, at.to(torch.int64))]
    value, position = picked if keepdim else [x.squeeze(v, [dim]) for v in picked]
    return value, position


def _running_max(x: Builder, a: Value, dim: int) -> Value:
    window, padding = [1] * a.rank, [(0, 0)] * a.rank
    window[dim], padding[dim] = a.shape[dim], (a.shape[dim] - 1, 0)
    (highest,) = x.reduce_window([a], [0], x.maximum, window, padding=padding)
    return highest


def _of_one_or_none(x: Builder, a: Value, dim: int, keepdim: bool) -> Pair:
    """What an order statistic of a number, or of nothing in another dimension, is."""
    if a.rank == 0:
        return a, x.constant(0, torch.int64)
    dim = x.dimension(a, dim)
    shape = kept_shape(a.shape, [dim])
    shape = shape if keepdim else [*shape[:dim], *shape[dim + 1 :]]
    return x.constant(0, a.dtype, shape), x.constant(0, torch.int64, shape)


def _nothing(x: Builder, a: Value) -> Pair:
    return x.constant(0, a.dtype, [0]), x.constant(0, torch.int64, [0])
