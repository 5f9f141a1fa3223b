"""Counts of elements in bins, along one dimension or several."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Operand, Value

aten = torch.ops.aten


@lower(aten.histc)
def histc(x: Builder, a: Value, bins: int, low: Operand, high: Operand) -> Value:
    wide = x.reshape(a, [a.size]).to(dtypes.compute_dtype(a.dtype))
    low, high = x.number(low, wide.dtype), x.number(high, wide.dtype)
    if a.size:
        by_data = low.eq(high)
        low, high = x.select(by_data, x.min(wide), low), x.select(by_data, x.max(wide), high)
    low, high = _apart(x, low, high, 1)
    x.check(~(x.is_finite(low) & x.is_finite(high)), RuntimeError, "histc: the range is not finite")
    x.check(low > high, RuntimeError, "histc: max must be larger than min")
    place = _linear_place(x, wide, low, high, bins)
    counted = (wide >= low) & (wide <= high)
    return _count(x, [x.select(counted, place, bins)], [bins], None, wide.dtype).to(a.dtype)


@lower(aten.histogram.bin_ct, static=("range",))
def histogram_of_equal_bins(
    x: Builder,
    a: Value,
    bins: int,
    *,
    range: Sequence[float] | None,
    weight: Value | None,
    density: bool,
) -> tuple[Value, Value]:
    edges = _equal_edges(x, x.reshape(a, [a.size, 1]), [bins], range)
    return _histogram(x, a, edges, weight, density), edges[0]


@lower(aten.histogram.bins_tensor)
def histogram_of_edges(
    x: Builder, a: Value, bins: Value, *, weight: Value | None, density: bool
) -> tuple[Value, Value]:
    return _histogram(x, a, [bins], weight, density), bins


@lower(aten._histogramdd_bin_edges, static=("range",))
def bin_edges(
    x: Builder,
    a: Value,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None,
    weight: Value | None,
    density: bool,
) -> list[Value]:
    """They do not depend on weight and density."""
    return _equal_edges(x, x.reshape(a, [-1, a.shape[-1]]), bins, range)


@lower(aten._histogramdd_from_bin_cts, static=("range",))
def histogram_from_bin_counts(
    x: Builder,
    a: Value,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None,
    weight: Value | None,
    density: bool,
) -> Value:
    points = x.reshape(a, [-1, a.shape[-1]])
    return _histogram(x, points, _equal_edges(x, points, bins, range), weight, density)


@lower(aten._histogramdd_from_bin_tensors)
def histogram_from_bin_edges(
    x: Builder, a: Value, bins: Sequence[Value], *, weight: Value | None, density: bool
) -> Value:
    return _histogram(x, x.reshape(a, [-1, a.shape[-1]]), bins, weight, density)


def _histogram(
    x: Builder, a: Value, edges: Sequence[Value], weight: Value | None, density: bool
) -> Value:
    points = x.reshape(a, [-1, len(edges)])
    counts = [edge.size - 1 for edge in edges]
    places = []
    for d, edge in enumerate(edges):
        coordinate = x.reshape(x.slice_in_dim(points, 1, d, d + 1), [-1])
        places.append(_place_between(x, coordinate, edge))
    weight = None if weight is None else x.reshape(weight, [-1])
    histogram = _count(x, places, counts, weight, a.dtype)
    if not density:
        return histogram
    histogram = histogram / x.sum(histogram)
    for d, edge in enumerate(edges):
        widths = x.slice_in_dim(edge, 0, 1, edge.size) - x.slice_in_dim(edge, 0, 0, edge.size - 1)
        aligned = [1] * d + [counts[d]] + [1] * (len(edges) - d - 1)
        histogram = histogram / x.reshape(widths, aligned)
    return histogram


def _place_between(x: Builder, a: Value, edges: Value) -> Value:
    """The bin of each element; the number of bins where it lies in none. The last is closed."""
    bins = edges.size - 1
    first, last = (x.slice_in_dim(edges, 0, i, i + 1) for i in (0, bins))
    passed = x.call(aten.searchsorted.Tensor, edges, a, out_int32=True, right=True)
    place = x.clamp(0, passed - 1, max(bins - 1, 0))
    return x.select((a >= first) & (a <= last), place, bins)


def _linear_place(x: Builder, a: Value, low: Value, high: Value, bins: int) -> Value:
    place = (a - low) * bins / (high - low)
    return x.clamp(0, place.to(torch.int32), bins - 1)


def _count(
    x: Builder,
    places: Sequence[Value],
    counts: Sequence[int],
    weight: Value | None,
    dtype: torch.dtype,
) -> Value:
    """How many elements, or how much weight, each bin has; what is outside of any is dropped."""
    flat = x.constant(0, torch.int32, places[0].shape)
    outside = x.constant(False, torch.bool, places[0].shape)
    for place, count in zip(places, counts, strict=True):
        flat, outside = flat * count + place, outside | place.eq(count)
    total = math.prod(counts)
    start = x.constant(0, dtype, [total])
    if weight is None:
        weight = x.constant(1, dtype, flat.shape)
    index = x.select(outside, total, flat)
    filled = x.put_elements(start, [index], weight, combine=lambda old, new: old + new)
    return x.reshape(filled, counts)


def _equal_edges(
    x: Builder, points: Value, bins: Sequence[int], limits: Sequence[float] | None
) -> list[Value]:
    """Edges of bins of equal width, over given limits or those of the data."""
    edges = []
    for d, count in enumerate(bins):
        coordinate = x.slice_in_dim(points, 1, d, d + 1)
        if limits is not None:
            low, high = (x.constant(limits[2 * d + i], points.dtype) for i in (0, 1))
        elif points.shape[0]:
            low, high = x.min(coordinate), x.max(coordinate)
        else:
            low, high = (x.constant(i, points.dtype) for i in (0, 1))
        x.check(
            ~(x.is_finite(low) & x.is_finite(high)),
            RuntimeError,
            "torch.histogramdd: dimension range is not finite",
        )
        edges.append(_spaced(x, *_apart(x, low, high, 0.5), count + 1))
    return edges


def _apart(x: Builder, low: Value, high: Value, by: float) -> tuple[Value, Value]:
    """A range that is not empty."""
    empty = low.eq(high)
    return x.select(empty, low - by, low), x.select(empty, high + by, high)


def _spaced(x: Builder, low: Value, high: Value, count: int) -> Value:
    """`count` numbers from low to high, each counted from the nearer end."""
    step = (high - low) / (count - 1)
    place = x.iota(torch.int32, [count])
    rising = low + place.to(low.dtype) * step
    falling = high - (count - 1 - place).to(low.dtype) * step
    return x.select(place < count // 2, rising, falling)
