"""Interpolation, with gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy
import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.resampling import (
    Taps,
    one_tap,
    resample,
    resample_all,
    resample_all_backward,
)
from torch_trainium.lowering.values import Value

aten = torch.ops.aten

Scale = float | None
# Takes a length before, a length after, a scale factor and a NumPy float dtype.
Kernel = Callable[[int, int, Scale, Any], Taps]

SCALES = ("scales", "scales_d", "scales_h", "scales_w")


def _register(name: str, kernel: Kernel, ranks: Sequence[int]) -> None:
    """Modes without corners to align: forward and backward, for several ranks."""

    def forward(
        x: Builder, a: Value, output_size: list[int], d: Scale, h: Scale = None, w: Scale = None
    ) -> Value:
        return _forward(x, a, output_size, kernel, (d, h, w))

    def backward(
        x: Builder,
        grad: Value,
        output_size: list[int],
        input_size: list[int],
        d: Scale,
        h: Scale = None,
        w: Scale = None,
    ) -> Value:
        return _backward(x, grad, input_size, kernel, (d, h, w))

    for rank in ranks:
        lower(getattr(aten, f"{name}{rank}d"), static=SCALES)(forward)
        lower(getattr(aten, f"{name}{rank}d_backward"), static=SCALES)(backward)


def _register_aligned(name: str, kernel: Callable[..., Taps]) -> None:
    """Modes that may align the corners."""

    def forward(
        x: Builder,
        a: Value,
        output_size: list[int],
        align_corners: bool,
        d: Scale,
        h: Scale = None,
        w: Scale = None,
    ) -> Value:
        return _forward(x, a, output_size, partial(kernel, align_corners), (d, h, w))

    def backward(
        x: Builder,
        grad: Value,
        output_size: list[int],
        input_size: list[int],
        align_corners: bool,
        d: Scale,
        h: Scale = None,
        w: Scale = None,
    ) -> Value:
        return _backward(x, grad, input_size, partial(kernel, align_corners), (d, h, w))

    lower(getattr(aten, name), static=SCALES)(forward)
    lower(getattr(aten, f"{name}_backward"), static=SCALES)(backward)


def _forward(
    x: Builder, a: Value, output_size: Sequence[int], kernel: Kernel, scales: Sequence[Scale]
) -> Value:
    taps = _taps(a.dtype, a.shape[2:], output_size, kernel, scales)
    if all(t.weights is None for t in taps):
        return resample_all(x, a, taps)
    if dtypes.is_integral(a.dtype):
        return _resample_bytes(x, a, taps)
    return resample_all(x, a.to(dtypes.compute_dtype(a.dtype)), taps).to(a.dtype)


def _resample_bytes(x: Builder, a: Value, taps: Sequence[Taps]) -> Value:
    """As images are scaled: the last dimension first, rounded to bytes after each."""
    wide = a.to(torch.int32)
    for d in reversed(range(len(taps))):
        dim = a.rank - len(taps) + d
        if len(taps[d].places) == a.shape[dim]:
            continue  # whatever the scale
        whole, places = _fixed_point(taps[d])
        rounded = resample(x, wide, dim, whole) + 2 ** (places - 1)
        wide = x.clamp(0, x.shift_right(rounded, places), 255)
    return wide.to(a.dtype)


def _fixed_point(taps: Taps) -> tuple[Taps, int]:
    """Weights as integers of 16 bits, with as many binary places as fit; at most 22."""
    weights = taps.weights.copy()
    # Beyond an edge its element is read again, with one weight for all.
    for j in range(1, weights.shape[1]):
        again = taps.places[:, j] == taps.places[:, j - 1]
        weights[:, j] += numpy.where(again, weights[:, j - 1], 0)
    largest, places = max(float(weights.max()), 0.0), 0
    while places < 22 and int(0.5 + largest * 2 ** (places + 1)) < 2**15:
        places += 1
    weights[:, :-1][taps.places[:, 1:] == taps.places[:, :-1]] = 0
    scaled = numpy.trunc(weights * 2**places + numpy.copysign(0.5, weights))
    return Taps(taps.places, scaled.astype(numpy.int32)), places


def _backward(
    x: Builder, grad: Value, input_size: Sequence[int], kernel: Kernel, scales: Sequence[Scale]
) -> Value:
    lengths = input_size[2:]
    taps = _taps(grad.dtype, lengths, grad.shape[2:], kernel, scales)
    wide = grad.to(dtypes.compute_dtype(grad.dtype))
    return resample_all_backward(x, wide, taps, lengths).to(grad.dtype)


def _taps(
    dtype: torch.dtype,
    before: Sequence[int],
    after: Sequence[int],
    kernel: Kernel,
    scales: Sequence[Scale],
) -> list[Taps]:
    # PyTorch computes positions in the dtype it computes elements in, which shows.
    wide = dtype is torch.float64 or dtypes.is_integral(dtype)
    real = numpy.float64 if wide else numpy.float32
    return [kernel(n, m, s, real) for n, m, s in zip(before, after, scales, strict=False)]


# Where each result lies among the elements, and what it reads there


def _nearest(before: int, after: int, scale: Scale, real: Any) -> Taps:
    return _nearest_at(0.0, before, after, scale)


def _nearest_exact(before: int, after: int, scale: Scale, real: Any) -> Taps:
    return _nearest_at(0.5, before, after, scale)


def _nearest_at(shift: float, before: int, after: int, scale: Scale) -> Taps:
    step = numpy.float32(1 / scale if scale else before / after)
    at = numpy.floor((numpy.arange(after, dtype=numpy.float32) + numpy.float32(shift)) * step)
    return one_tap(numpy.minimum(at.astype(numpy.int64), before - 1))


def _linear(align_corners: bool, before: int, after: int, scale: Scale, real: Any) -> Taps:
    if before == after:
        return one_tap(numpy.arange(after))
    at = numpy.maximum(_positions(align_corners, before, after, scale, real), real(0))
    low = numpy.minimum(at.astype(numpy.int64), before - 1)
    rest = numpy.clip(at - low.astype(real), real(0), real(1))
    places = numpy.stack([low, numpy.minimum(low + 1, before - 1)], axis=1)
    return Taps(places, numpy.stack([real(1) - rest, rest], axis=1))


def _cubic(align_corners: bool, before: int, after: int, scale: Scale, real: Any) -> Taps:
    at = _positions(align_corners, before, after, scale, real)
    low = numpy.minimum(numpy.floor(at).astype(numpy.int64), before - 1)
    rest = numpy.clip(at - low.astype(real), real(0), real(1))
    distances = numpy.stack([rest + real(1), rest, real(1) - rest, real(2) - rest], axis=1)
    places = numpy.clip(low[:, None] + numpy.arange(-1, 3), 0, before - 1)
    return Taps(places, cubic_weight(distances, -0.75))


def _antialiased(
    weight: Callable[[Any], Any],
    reach: float,
    align_corners: bool,
    before: int,
    after: int,
    scale: Scale,
    real: Any,
) -> Taps:
    """A filter that widens where the result has fewer elements."""
    step = _step(align_corners, before, after, scale, real)
    stretch = max(step, real(1))
    support = real(reach) * stretch
    centers = step * (numpy.arange(after).astype(real) + real(0.5))
    first = numpy.maximum((centers - support + real(0.5)).astype(numpy.int64), 0)
    last = numpy.minimum((centers + support + real(0.5)).astype(numpy.int64), before)
    count = max(int((last - first).max()), 1)
    places = first[:, None] + numpy.arange(count)
    distances = (places.astype(real) - centers[:, None] + real(0.5)) / stretch
    weights = numpy.where(places < last[:, None], weight(abs(distances)), real(0)).astype(real)
    return Taps(numpy.clip(places, 0, before - 1), weights / weights.sum(axis=1, keepdims=True))


def _positions(align_corners: bool, before: int, after: int, scale: Scale, real: Any) -> Any:
    step = _step(align_corners, before, after, scale, real)
    index = numpy.arange(after).astype(real)
    return index * step if align_corners else (index + real(0.5)) * step - real(0.5)


def _step(align_corners: bool, before: int, after: int, scale: Scale, real: Any) -> Any:
    if align_corners:
        return real(before - 1) / real(after - 1) if after > 1 else real(0)
    return real(1 / scale) if scale else real(before) / real(after)


def cubic_weight(distance: Any, sharpness: float) -> Any:
    """Keys' cubic convolution of distances that are not negative; arrays of any kind."""
    a = distance.dtype.type(sharpness)
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return numpy.where(distance <= 1, near, numpy.where(distance < 2, far, 0)).astype(
        distance.dtype
    )


def _triangle(distance: Any) -> Any:
    return numpy.maximum(1 - distance, 0)


_register("upsample_nearest", _nearest, (1, 2, 3))
_register("_upsample_nearest_exact", _nearest_exact, (1, 2, 3))
for _name in ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"):
    _register_aligned(_name, _linear)
_register_aligned("upsample_bicubic2d", _cubic)
_register_aligned("_upsample_bilinear2d_aa", partial(_antialiased, _triangle, 1.0))
_register_aligned(
    "_upsample_bicubic2d_aa", partial(_antialiased, partial(cubic_weight, sharpness=-0.5), 2.0)
)
