"""Sampling at the points of a grid, with gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import product

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2


@dataclass(frozen=True)
class Tap:
    """What every point reads along one dimension.

    Attributes:
        place: position among the elements.
        inside: whether there is an element.
        weight: what it is multiplied by.
        slope: the derivative of the weight by the grid's coordinate.

    """

    place: Value
    inside: Value
    weight: Value
    slope: Value


@lower(aten.grid_sampler_2d, aten.grid_sampler_3d)
def grid_sampler(
    x: Builder, a: Value, grid: Value, mode: int, padding: int, align_corners: bool
) -> Value:
    wide = a.to(dtypes.compute_dtype(a.dtype))
    corners = _corners(x, a.shape[2:], grid.to(wide.dtype), mode, padding, align_corners)
    read = x.select(_inside(corners), _read(x, wide, corners), 0)
    total = x.sum(read * _product(corners), [grid.rank - 1])
    return _channels_second(x, total).to(a.dtype)


@lower(aten.grid_sampler_2d_backward, aten.grid_sampler_3d_backward)
def grid_sampler_backward(
    x: Builder,
    grad: Value,
    a: Value,
    grid: Value,
    mode: int,
    padding: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Value | None, Value]:
    wide = a.to(dtypes.compute_dtype(a.dtype))
    corners = _corners(x, a.shape[2:], grid.to(wide.dtype), mode, padding, align_corners)
    inside = _inside(corners)
    given = x.unsqueeze(_channels_last(x, grad.to(wide.dtype)), grad.rank - 1)
    image = _channels_last(x, x.constant(0, wide.dtype, a.shape))
    if output_mask[0]:
        image = _add(x, image, corners, x.select(inside, given * _product(corners), 0))
    read = x.select(inside, _read(x, wide, corners), 0)
    along = x.sum(read * given, [given.rank - 1])
    slopes = [x.sum(along * _slope(corners, d), [along.rank - 1]) for d in range(len(corners))]
    # The grid names the last dimension first.
    grid_grad = x.stack(slopes[::-1], dim=grid.rank - 1).to(grid.dtype)
    return (_channels_second(x, image).to(a.dtype) if output_mask[0] else None), grid_grad


def _corners(
    x: Builder, lengths: Sequence[int], grid: Value, mode: int, padding: int, align: bool
) -> list[Tap]:
    """For each dimension its part in every combination of taps, those in the last dimension."""
    taps = _taps(x, lengths, grid, mode, padding, align)
    merged = []
    for parts in zip(*product(*taps), strict=True):
        rank = parts[0].place.rank
        columns = [[getattr(t, field.name) for t in parts] for field in fields(Tap)]
        merged.append(Tap(*(x.stack(column, dim=rank) for column in columns)))
    return merged


def _taps(
    x: Builder, lengths: Sequence[int], grid: Value, mode: int, padding: int, align: bool
) -> list[list[Tap]]:
    """For each dimension in the image's order."""
    last = grid.rank - 1
    taps = []
    for d, length in enumerate(lengths):
        column = len(lengths) - 1 - d
        coordinate = x.squeeze(x.slice_in_dim(grid, last, column, column + 1), [last])
        step = (length - 1) / 2 if align else length / 2
        at = (coordinate + 1) * step if align else ((coordinate + 1) * length - 1) / 2
        taps.append(_taps_along(x, at, length, step, mode, padding, align))
    return taps


def _taps_along(
    x: Builder, at: Value, length: int, step: float, mode: int, padding: int, align: bool
) -> list[Tap]:
    if mode == BICUBIC:
        low = x.floor(at)
        weights = [_cubic(at - low - offset, abs(offset - 0.5) < 1) for offset in range(-1, 3)]
        return [
            _tap(
                x,
                _padded(x, low + (i - 1), length, padding, align)[0],
                length,
                weight,
                slope * step,
            )
            for i, (weight, slope) in enumerate(weights)
        ]
    at, slope = _padded(x, at, length, padding, align)
    if mode == NEAREST:
        one, zero = x.constant(1, at.dtype, at.shape), x.constant(0, at.dtype, at.shape)
        return [_tap(x, x.round(at), length, one, zero)]
    low = x.floor(at)
    slope = slope * step
    return [
        _tap(x, low, length, low + 1 - at, -slope),
        _tap(x, low + 1, length, at - low, slope),
    ]


def _tap(x: Builder, place: Value, length: int, weight: Value, slope: Value) -> Tap:
    inside = (place >= 0) & (place <= length - 1)
    clipped = x.select(inside, place, 0).to(torch.int32)
    return Tap(clipped, inside, weight, slope)


def _padded(x: Builder, at: Value, length: int, padding: int, align: bool) -> tuple[Value, Value]:
    """Positions led back into the image where padding says so, and their derivative."""
    slope = x.constant(1, at.dtype, at.shape)
    if padding == ZEROS:
        return at, slope
    if padding == REFLECTION:
        at, slope = _reflected(x, at, length, align)
    inside = (at > 0) & (at < length - 1)
    return x.clamp(0, at, length - 1), x.select(inside, slope, 0)


def _reflected(x: Builder, at: Value, length: int, align: bool) -> tuple[Value, Value]:
    """Between the centers of the outer elements, or between their edges."""
    low, span = (0.0, length - 1) if align else (-0.5, length)
    if span == 0:
        return at * 0, x.constant(0, at.dtype, at.shape)
    distance = at - low
    side = x.select(distance < 0, x.constant(-1, at.dtype), x.constant(1, at.dtype))
    distance = x.abs(distance)
    flips = x.floor(distance / span)
    rest = x.remainder(distance, float(span))
    even = x.remainder(flips, 2.0).eq(0)
    place = x.select(even, rest + low, (span - rest) + low)
    return place, x.select(even, side, -side)


def _cubic(distance: Value, near: bool) -> tuple[Value, Value]:
    """Keys' cubic convolution at a signed distance, and its derivative."""
    x = distance.builder
    a = -0.75
    size, sign = x.abs(distance), x.sign(distance)
    if near:
        weight = ((a + 2) * size - (a + 3)) * size * size + 1
        return weight, (3 * (a + 2) * size - 2 * (a + 3)) * size * sign
    weight = ((a * size - 5 * a) * size + 8 * a) * size - 4 * a
    return weight, ((3 * a * size - 10 * a) * size + 8 * a) * sign


def _product(corners: Sequence[Tap]) -> Value:
    weight = corners[0].weight
    for tap in corners[1:]:
        weight = weight * tap.weight
    return weight.builder.unsqueeze(weight, weight.rank)


def _slope(corners: Sequence[Tap], dim: int) -> Value:
    slope = corners[dim].slope
    for d, tap in enumerate(corners):
        slope = slope * tap.weight if d != dim else slope
    return slope


def _inside(corners: Sequence[Tap]) -> Value:
    inside = corners[0].inside
    for tap in corners[1:]:
        inside = inside & tap.inside
    return inside.builder.unsqueeze(inside, inside.rank)


def _vectors(x: Builder, corners: Sequence[Tap]) -> Value:
    places = [tap.place for tap in corners]
    return x.stack([x.iota(torch.int32, places[0].shape, 0), *places], dim=places[0].rank)


def _read(x: Builder, a: Value, corners: Sequence[Tap]) -> Value:
    """An element of every channel for each point, channels last."""
    dims = [0, *range(2, a.rank)]
    points = corners[0].place
    if not a.size or not points.size:
        return x.constant(0, a.dtype, [*points.shape, a.shape[1]])
    return x.gather(
        a,
        _vectors(x, corners),
        slice_sizes=[a.shape[1] if d == 1 else 1 for d in range(a.rank)],
        offset_dims=[points.rank],
        collapsed_dims=dims,
        start_index_map=dims,
    )


def _add(x: Builder, image: Value, corners: Sequence[Tap], updates: Value) -> Value:
    if not image.size or not updates.size:
        return image
    dims = list(range(image.rank - 1))
    return x.scatter(
        image,
        _vectors(x, corners),
        updates,
        x.add,
        window_dims=[updates.rank - 1],
        inserted_dims=dims,
        index_map=dims,
    )


def _channels_last(x: Builder, a: Value) -> Value:
    return x.transpose(a, [0, *range(2, a.rank), 1])


def _channels_second(x: Builder, a: Value) -> Value:
    return x.transpose(a, [0, a.rank - 1, *range(1, a.rank - 1)])
