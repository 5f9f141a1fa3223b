"""Pooling and its gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.reductions import lowest
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.sliding import Fold, fold_windows
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


@dataclass(frozen=True)
class Windows:
    """The windows of a pooling: one entry for each spatial dimension."""

    kernel: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    ceil_mode: bool

    def count(self, lengths: Sequence[int]) -> list[int]:
        """How many windows there are along dimensions of these lengths."""
        return [self._count(d, n) for d, n in enumerate(lengths)]

    def _count(self, d: int, length: int) -> int:
        stride, padding = self.stride[d], self.padding[d]
        room = length + 2 * padding - self.dilation[d] * (self.kernel[d] - 1) - 1
        count = (room + (stride - 1 if self.ceil_mode else 0)) // stride + 1
        # The last window has to start inside the image or its left padding.
        outside = self.ceil_mode and (count - 1) * stride >= length + padding
        return count - 1 if outside else count

    def pads(self, lengths: Sequence[int]) -> list[tuple[int, int]]:
        """Padding with which exactly these windows fit; negative where elements are left over."""
        pads = []
        for d, (length, count) in enumerate(zip(lengths, self.count(lengths), strict=True)):
            end = (count - 1) * self.stride[d] + self.dilation[d] * (self.kernel[d] - 1) + 1
            pads.append((self.padding[d], end - length - self.padding[d]))
        return pads


def _windows(
    spatial: int,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Windows:
    def every(numbers: Sequence[int]) -> list[int]:
        return list(numbers) * (spatial if len(numbers) == 1 else 1)

    moved = every(stride or kernel)
    return Windows(every(kernel), moved, every(padding), every(dilation), ceil_mode)


# Maxima


def larger(x: Builder) -> Fold:
    """The larger element and its place: of equals the first, of several NaN the last."""

    def combine(best: Value, at: Value, other: Value, other_at: Value) -> list[Value]:
        take = (other > best) | (other.eq(best) & (other_at < at))
        if best.dtype.is_floating_point:
            take = take | (x.is_nan(other) & (~x.is_nan(best) | (other_at > at)))
        return [x.select(take, other, best), x.select(take, other_at, at)]

    return combine


def image_places(x: Builder, a: Value, spatial: int) -> Value:
    """Each element's number within its image."""
    image = a.shape[a.rank - spatial :]
    places = x.reshape(x.iota(torch.int32, [math.prod(image)]), image)
    return x.broadcast(places, a.shape)


def _max_pool(x: Builder, a: Value, spatial: int, windows: Windows) -> tuple[Value, Value]:
    outer = a.rank - spatial
    image = a.shape[outer:]
    if not a.size:
        shape = [*a.shape[:outer], *windows.count(image)]
        return x.constant(0, a.dtype, shape), x.constant(0, torch.int64, shape)
    low, high = ([0] * outer + list(edges) for edges in zip(*windows.pads(image), strict=True))
    folded = [
        x.pad(a, lowest(a.dtype), low, high),
        x.pad(image_places(x, a, spatial), math.prod(image), low, high),
    ]
    rows = zip(windows.kernel, windows.stride, windows.dilation, strict=True)
    for d, (size, stride, dilation) in enumerate(rows, outer):
        folded = fold_windows(x, folded, d, size, larger(x), stride=stride, dilation=dilation)
    value, at = folded
    return value, at.to(torch.int64)


def _add_at_places(
    x: Builder, updates: Value, indices: Value, shape: Sequence[int], spatial: int
) -> Value:
    """Zeros of `shape`, with updates added where the numbers within each image say."""
    wide = dtypes.compute_dtype(updates.dtype)
    if not updates.size:
        return x.constant(0, updates.dtype, shape)
    images, elements = math.prod(shape[:-spatial]), math.prod(shape[-spatial:])
    flat = [images, updates.size // images]
    into = x.put_elements(
        x.constant(0, wide, [images, elements]),
        [x.iota(torch.int32, flat, 0), x.reshape(indices.to(torch.int32), flat)],
        x.reshape(updates.to(wide), flat),
        lambda old, new: old + new,
    )
    return x.reshape(into.to(updates.dtype), shape)


def _unpool(x: Builder, a: Value, indices: Value, image: Sequence[int]) -> Value:
    """Zeros, but for the elements at their places in images of a shape."""
    outer = a.shape[: a.rank - len(image)]
    shape = [*outer, *image]
    if not a.size:
        return x.constant(0, a.dtype, shape)
    images, elements = math.prod(outer), math.prod(image)
    outside = (indices < 0) | (indices >= elements)
    x.check(outside, RuntimeError, f"found an invalid max index (output volume {elements})")
    flat = [images, a.size // images]
    into = x.put_elements(
        x.constant(0, a.dtype, [images, elements]),
        [x.iota(torch.int32, flat, 0), x.reshape(indices.to(torch.int32), flat)],
        x.reshape(a, flat),
    )
    return x.reshape(into, shape)


@lower(aten.max_unpool2d)
def max_unpool2d(x: Builder, a: Value, indices: Value, output_size: list[int]) -> Value:
    return _unpool(x, a, indices, output_size)


@lower(aten.max_unpool3d)
def max_unpool3d(
    x: Builder,
    a: Value,
    indices: Value,
    output_size: list[int],
    stride: list[int],
    padding: list[int],
) -> Value:
    return _unpool(x, a, indices, output_size)


@lower(aten.max_pool2d_with_indices)
def max_pool2d(
    x: Builder,
    a: Value,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
) -> tuple[Value, Value]:
    return _max_pool(x, a, 2, _windows(2, kernel, stride, padding, dilation, ceil_mode))


@lower(aten.max_pool3d_with_indices)
def max_pool3d(
    x: Builder,
    a: Value,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
) -> tuple[Value, Value]:
    return _max_pool(x, a, 3, _windows(3, kernel, stride, padding, dilation, ceil_mode))


@lower(aten.max_pool2d_with_indices_backward)
def max_pool2d_backward(
    x: Builder,
    grad: Value,
    a: Value,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
    indices: Value,
) -> Value:
    return _add_at_places(x, grad, indices, a.shape, 2)


@lower(aten.max_pool3d_with_indices_backward)
def max_pool3d_backward(
    x: Builder,
    grad: Value,
    a: Value,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
    indices: Value,
) -> Value:
    return _add_at_places(x, grad, indices, a.shape, 3)


@lower(aten.adaptive_max_pool2d_backward)
def adaptive_max_pool2d_backward(x: Builder, grad: Value, a: Value, indices: Value) -> Value:
    return _add_at_places(x, grad, indices, a.shape, 2)


@lower(aten.adaptive_max_pool3d_backward)
def adaptive_max_pool3d_backward(x: Builder, grad: Value, a: Value, indices: Value) -> Value:
    return _add_at_places(x, grad, indices, a.shape, 3)


@lower(aten.fractional_max_pool2d_backward)
def fractional_max_pool2d_backward(
    x: Builder, grad: Value, a: Value, kernel: list[int], output: list[int], indices: Value
) -> Value:
    return _add_at_places(x, grad, indices, a.shape, 2)


@lower(aten.fractional_max_pool3d_backward)
def fractional_max_pool3d_backward(
    x: Builder, grad: Value, a: Value, kernel: list[int], output: list[int], indices: Value
) -> Value:
    return _add_at_places(x, grad, indices, a.shape, 3)


# Means


def along_dim(x: Builder, row: Value, dim: int, rank: int) -> Value:
    """A vector as an array of `rank` dimensions that varies along one."""
    return x.reshape(row, [-1 if d == dim else 1 for d in range(rank)])


def _divisor(
    x: Builder, windows: Windows, image: Sequence[int], include_pad: bool, override: int | None
) -> Value:
    """What the sum over each window is divided by."""
    if override is not None:
        return x.constant(override, torch.int32, windows.count(image))
    total = x.constant(1, torch.int32, windows.count(image))
    for d, (length, count) in enumerate(zip(image, windows.count(image), strict=True)):
        padding = windows.padding[d]
        start = x.iota(torch.int32, [count]) * windows.stride[d] - padding
        end = x.minimum(start + windows.kernel[d], length + padding)
        if not include_pad:
            start, end = x.maximum(start, 0), x.minimum(end, length)
        total = total * along_dim(x, end - start, d, len(image))
    return total


def _avg_pool(
    x: Builder,
    a: Value,
    windows: Windows,
    include_pad: bool,
    override: int | None,
) -> Value:
    spatial = len(windows.kernel)
    outer = a.rank - spatial
    image = a.shape[outer:]
    wide = a.to(dtypes.compute_dtype(a.dtype))
    if not a.size:
        return x.constant(0, a.dtype, [*a.shape[:outer], *windows.count(image)])
    (total,) = x.reduce_window(
        [wide],
        [0],
        lambda left, right: left + right,
        [1] * outer + windows.kernel,
        [1] * outer + windows.stride,
        [(0, 0)] * outer + windows.pads(image),
    )
    divisor = _divisor(x, windows, image, include_pad, override)
    return (total / divisor.to(wide.dtype)).to(a.dtype)


def _avg_pool_backward(
    x: Builder,
    grad: Value,
    shape: Sequence[int],
    windows: Windows,
    include_pad: bool,
    override: int | None,
) -> Value:
    spatial = len(windows.kernel)
    outer = grad.rank - spatial
    image = list(shape[outer:])
    wide = grad.to(dtypes.compute_dtype(grad.dtype))
    if not grad.size:
        return x.constant(0, grad.dtype, shape)
    shares = wide / _divisor(x, windows, image, include_pad, override).to(wide.dtype)
    low, high = [0] * grad.rank, [0] * grad.rank
    interior = [0] * outer + [stride - 1 for stride in windows.stride]
    for d, (length, count) in enumerate(zip(image, grad.shape[outer:], strict=True)):
        reach = windows.kernel[d] - 1
        spread = (count - 1) * windows.stride[d] + 1
        low[outer + d] = reach - windows.padding[d]
        high[outer + d] = length + windows.padding[d] - spread
    # Spread by a pad, as the targets have no windows over a dilated base.
    (total,) = x.reduce_window(
        [x.pad(shares, 0, low, high, interior)],
        [0],
        lambda left, right: left + right,
        [1] * outer + windows.kernel,
    )
    return total.to(grad.dtype)


@lower(aten.avg_pool2d)
def avg_pool2d(
    x: Builder,
    a: Value,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    windows = _windows(2, kernel, stride, padding, [1], ceil_mode)
    return _avg_pool(x, a, windows, count_include_pad, divisor_override)


@lower(aten.avg_pool3d)
def avg_pool3d(
    x: Builder,
    a: Value,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    windows = _windows(3, kernel, stride, padding, [1], ceil_mode)
    return _avg_pool(x, a, windows, count_include_pad, divisor_override)


@lower(aten.avg_pool2d_backward)
def avg_pool2d_backward(
    x: Builder,
    grad: Value,
    a: Value,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    windows = _windows(2, kernel, stride, padding, [1], ceil_mode)
    return _avg_pool_backward(x, grad, a.shape, windows, count_include_pad, divisor_override)


@lower(aten.avg_pool3d_backward)
def avg_pool3d_backward(
    x: Builder,
    grad: Value,
    a: Value,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    windows = _windows(3, kernel, stride, padding, [1], ceil_mode)
    return _avg_pool_backward(x, grad, a.shape, windows, count_include_pad, divisor_override)
