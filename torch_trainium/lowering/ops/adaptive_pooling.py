"""Pooling over windows whose places follow from the size of the result, or from random numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.ops.pooling import along_dim, image_places, larger
from torch_trainium.lowering.reductions import lowest
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.sliding import fold_dims
from torch_trainium.lowering.values import Number, Value

aten = torch.ops.aten


def _adaptive_windows(x: Builder, length: int, count: int) -> tuple[Value, Value, int]:
    """Starts and ends of `count` windows over a dimension, and the length of the longest."""
    number = x.iota(torch.int32, [count])
    starts = x.divide(number * length, count)
    ends = x.divide((number + 1) * length + (count - 1), count)
    longest = max(
        (-((-(i + 1) * length) // count) - i * length // count for i in range(count)), default=1
    )
    return starts, ends, longest


def _unfold(
    x: Builder, a: Value, dim: int, windows: tuple[Value, Value, int], filler: Number
) -> Value:
    """A dimension's windows in two dimensions in its place: which window, and where in it."""
    starts, ends, longest = windows
    shape = [starts.shape[0], longest]
    places = x.unsqueeze(starts, 1) + x.iota(torch.int32, shape, 1)
    inside = places < x.unsqueeze(ends, 1)
    taken = x.take(a, x.minimum(places, a.shape[dim] - 1), dim)
    mask = x.reshape(inside, [*shape, *[1] * (a.rank - dim - 1)])
    return x.select(mask, taken, x.constant(filler, a.dtype))


# Means


def _window_sums(x: Builder, a: Value, count: Sequence[int]) -> Value:
    """Sums over the adaptive windows of the last dimensions."""
    for d, windows in enumerate(count, a.rank - len(count)):
        unfolded = _unfold(x, a, d, _adaptive_windows(x, a.shape[d], windows), 0)
        a = x.sum(unfolded, [d + 1])
    return a


def _sizes(x: Builder, image: Sequence[int], count: Sequence[int]) -> Value:
    """How many elements each adaptive window has."""
    total = x.constant(1, torch.int32, count)
    for d, (length, windows) in enumerate(zip(image, count, strict=True)):
        starts, ends, _ = _adaptive_windows(x, length, windows)
        total = total * along_dim(x, ends - starts, d, len(count))
    return total


@lower(aten._adaptive_avg_pool2d, aten._adaptive_avg_pool3d)
def adaptive_avg_pool(x: Builder, a: Value, output_size: list[int]) -> Value:
    outer = a.rank - len(output_size)
    wide = a.to(dtypes.compute_dtype(a.dtype))
    if not a.size or 0 in output_size:
        return x.constant(0, a.dtype, [*a.shape[:outer], *output_size])
    sizes = _sizes(x, a.shape[outer:], output_size).to(wide.dtype)
    return (_window_sums(x, wide, output_size) / sizes).to(a.dtype)


@lower(aten._adaptive_avg_pool2d_backward)
def adaptive_avg_pool2d_backward(x: Builder, grad: Value, a: Value) -> Value:
    return _adaptive_avg_pool_backward(x, grad, a, 2)


@lower(aten._adaptive_avg_pool3d_backward)
def adaptive_avg_pool3d_backward(x: Builder, grad: Value, a: Value) -> Value:
    return _adaptive_avg_pool_backward(x, grad, a, 3)


def _adaptive_avg_pool_backward(x: Builder, grad: Value, a: Value, spatial: int) -> Value:
    """The windows that hold an element are themselves adaptive windows over the result."""
    if not grad.size or not a.size:
        return x.constant(0, a.dtype, a.shape)
    wide = grad.to(dtypes.compute_dtype(grad.dtype))
    image, count = a.shape[-spatial:], grad.shape[-spatial:]
    shares = wide / _sizes(x, image, count).to(wide.dtype)
    return _window_sums(x, shares, image).to(grad.dtype)


# Maxima


def _max_over(
    x: Builder, a: Value, windows: Sequence[tuple[Value, Value, int]]
) -> tuple[Value, Value]:
    """Largest elements, and their numbers within the image, of windows in the last dimensions."""
    spatial = len(windows)
    outer = a.rank - spatial
    last = math.prod(a.shape[outer:])
    value, at = a, image_places(x, a, spatial)
    for d, places in reversed(list(enumerate(windows, outer))):
        value = _unfold(x, value, d, places, lowest(a.dtype))
        at = _unfold(x, at, d, places, last)
        value, at = fold_dims(x, [value, at], [d + 1], larger(x))
    return value, at.to(torch.int64)


@lower(aten.adaptive_max_pool2d, aten.adaptive_max_pool3d)
def adaptive_max_pool(x: Builder, a: Value, output_size: list[int]) -> tuple[Value, Value]:
    outer = a.rank - len(output_size)
    if not a.size or 0 in output_size:
        shape = [*a.shape[:outer], *output_size]
        return x.constant(0, a.dtype, shape), x.constant(0, torch.int64, shape)
    lengths = zip(a.shape[outer:], output_size, strict=True)
    return _max_over(x, a, [_adaptive_windows(x, n, count) for n, count in lengths])


# Windows at random places


def _fractional_starts(x: Builder, samples: Value, length: int, kernel: int, count: int) -> Value:
    """Starts of each image's windows, shifted by its random number; the last ends the image."""
    last = length - kernel
    shape = [samples.shape[0], count]
    number = x.iota(torch.int32, shape, 1)
    # In the samples' own precision, as PyTorch: it decides which way an element falls.
    alpha = x.constant(last, samples.dtype) / max(count - 1, 1)
    sample = x.unsqueeze(samples, 1)
    moved = ((number.to(samples.dtype) + sample) * alpha).to(torch.int32)
    starts = moved - (sample * alpha).to(torch.int32)
    return x.select(number.eq(count - 1), x.constant(last, torch.int32), starts)


def _fractional_max_pool(
    x: Builder, a: Value, kernel: list[int], output_size: list[int], columns: list[Value]
) -> tuple[Value, Value]:
    """`columns` holds, for each spatial dimension, one random number per image."""
    spatial = len(kernel)
    outer, image = a.shape[:-spatial], a.shape[-spatial:]
    images = math.prod(outer)
    within = x.constant(0, torch.int32, [images] + [1] * 2 * spatial)
    for d, (length, size, count) in enumerate(zip(image, kernel, output_size, strict=True)):
        starts = _fractional_starts(x, columns[d], length, size, count)
        places = x.unsqueeze(starts, 2) + x.iota(torch.int32, [images, count, size], 2)
        shape = [images] + [1] * 2 * spatial
        shape[1 + 2 * d : 3 + 2 * d] = [count, size]
        within = within * length + x.reshape(places, shape)
    first = x.iota(torch.int32, within.shape, 0) * math.prod(image)
    taken = x.take(x.reshape(a, [a.size]), within + first)
    dims = [2 + 2 * d for d in range(spatial)]
    value, at = fold_dims(x, [taken, x.broadcast(within, taken.shape)], dims, larger(x))
    shape = [*outer, *output_size]
    return x.reshape(value, shape), x.reshape(at.to(torch.int64), shape)


def _columns(x: Builder, samples: Value, images: int) -> list[Value]:
    """The random numbers of each column, one per image."""
    rows = x.reshape(samples, [-1, samples.shape[-1]])
    return [x.reshape(x.slice_in_dim(rows, 1, d, d + 1), [images]) for d in range(rows.shape[1])]


@lower(aten.fractional_max_pool2d)
def fractional_max_pool2d(
    x: Builder, a: Value, kernel: list[int], output_size: list[int], samples: Value
) -> tuple[Value, Value]:
    across, down = _columns(x, samples, math.prod(a.shape[:-2]))
    return _fractional_max_pool(x, a, kernel, output_size, [down, across])


@lower(aten.fractional_max_pool3d)
def fractional_max_pool3d(
    x: Builder, a: Value, kernel: list[int], output_size: list[int], samples: Value
) -> tuple[Value, Value]:
    columns = _columns(x, samples, math.prod(a.shape[:-3]))
    return _fractional_max_pool(x, a, kernel, output_size, columns)
