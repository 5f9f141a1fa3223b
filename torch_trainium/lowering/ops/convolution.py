"""Convolutions, plain, transposed and grouped, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


@dataclass(frozen=True)
class Geometry:
    """How a kernel moves over an image, one entry for each spatial dimension."""

    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int

    def reach(self, kernel: Sequence[int]) -> list[int]:
        """From a kernel's first element to its last, in elements of the image."""
        return [d * (k - 1) for d, k in zip(self.dilation, kernel, strict=True)]


def _geometry(
    spatial: int,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Geometry:
    def every(numbers: Sequence[int]) -> list[int]:
        return list(numbers) * (spatial if len(numbers) == 1 else 1)

    return Geometry(every(stride), every(padding), every(dilation), groups)


@lower(aten.convolution, aten.convolution_overrideable)
def convolution(
    x: Builder,
    a: Value,
    weight: Value,
    bias: Value | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Value:
    geometry = _geometry(a.rank - 2, stride, padding, dilation, groups)
    if transposed:
        extra = list(output_padding) * (a.rank - 2 if len(output_padding) == 1 else 1)
        result = _spread(x, a, weight, geometry, _transposed_lengths(a, weight, geometry, extra))
    else:
        result = _correlate(x, a, weight, geometry, _lengths(a, weight, geometry))
    if bias is not None:
        result = result + x.reshape(bias.to(result.dtype), [-1] + [1] * (a.rank - 2))
    return result.to(a.dtype)


@lower(aten.convolution_backward)
def convolution_backward(
    x: Builder,
    grad: Value,
    a: Value,
    weight: Value,
    bias_sizes: list[int] | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    output_mask: list[bool],
) -> tuple[Value | None, ...]:
    geometry = _geometry(a.rank - 2, stride, padding, dilation, groups)
    of_input, of_weight, of_bias = None, None, None
    if output_mask[0]:
        # A transposed convolution is the gradient of a plain one, and the other way round.
        backward = _correlate if transposed else _spread
        of_input = backward(x, grad, weight, geometry, a.shape[2:]).to(a.dtype)
    if output_mask[1]:
        image, moved = (grad, a) if transposed else (a, grad)
        of_weight = _weight_gradient(x, image, moved, geometry, weight.shape).to(weight.dtype)
    if output_mask[2]:
        wide = grad.to(dtypes.compute_dtype(grad.dtype))
        of_bias = x.sum(wide, [0, *range(2, grad.rank)]).to(grad.dtype)
    return of_input, of_weight, of_bias


@lower(aten.convolution_backward_overrideable)
def convolution_backward_overrideable(
    x: Builder,
    grad: Value,
    a: Value,
    weight: Value,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    output_mask: list[bool],
) -> tuple[Value | None, ...]:
    geometry = (stride, padding, dilation, transposed, output_padding, groups)
    return convolution_backward(x, grad, a, weight, None, *geometry, output_mask)


def _lengths(a: Value, weight: Value, g: Geometry) -> list[int]:
    """Spatial shape of a plain convolution."""
    rows = zip(a.shape[2:], g.padding, g.reach(weight.shape[2:]), g.stride, strict=True)
    return [(n + 2 * p - reach - 1) // s + 1 for n, p, reach, s in rows]


def _transposed_lengths(a: Value, weight: Value, g: Geometry, extra: list[int]) -> list[int]:
    """Spatial shape of a transposed convolution; `extra` is its output padding."""
    rows = zip(a.shape[2:], g.padding, g.reach(weight.shape[2:]), g.stride, extra, strict=True)
    return [(n - 1) * s - 2 * p + reach + e + 1 for n, p, reach, s, e in rows]


def _correlate(x: Builder, a: Value, weight: Value, g: Geometry, lengths: Sequence[int]) -> Value:
    """The kernel's product with every window, of which there are `lengths`."""
    wide = dtypes.compute_dtype(a.dtype)
    if not a.size or not weight.size:
        return x.constant(0, wide, [a.shape[0], weight.shape[0], *lengths])
    rows = zip(lengths, g.stride, g.reach(weight.shape[2:]), a.shape[2:], g.padding, strict=True)
    padding = [(p, (out - 1) * s + 1 + reach - n - p) for out, s, reach, n, p in rows]
    return x.convolution(
        a,
        weight,
        strides=g.stride,
        padding=padding,
        dilation=g.dilation,
        groups=g.groups,
        accumulate=wide,
    )


def _spread(x: Builder, a: Value, weight: Value, g: Geometry, lengths: Sequence[int]) -> Value:
    """The adjoint of `_correlate`: every element times the kernel, added up where they overlap."""
    wide = dtypes.compute_dtype(a.dtype)
    outputs = weight.shape[1] * g.groups
    if not a.size or not weight.size:
        return x.constant(0, wide, [a.shape[0], outputs, *lengths])
    rows = zip(lengths, g.stride, g.reach(weight.shape[2:]), a.shape[2:], g.padding, strict=True)
    padding = [(reach - p, out + p - (n - 1) * s - 1) for out, s, reach, n, p in rows]
    spacing = g.stride
    if max(spacing) > 1 and max(g.dilation) > 1:
        # The targets have no convolution that dilates both its operands.
        none = [0] * a.rank
        a = x.pad(a, 0, none, none, [0, 0, *(s - 1 for s in spacing)])
        spacing = [1] * len(spacing)
    return x.convolution(
        a,
        _exchange_channels(x, weight, g.groups),
        strides=[1] * len(g.stride),
        padding=padding,
        dilation=g.dilation,
        input_dilation=spacing,
        groups=g.groups,
        accumulate=wide,
    )


def _exchange_channels(x: Builder, weight: Value, groups: int) -> Value:
    """The kernel of the adjoint: inputs for outputs within each group, and turned around."""
    inputs, outputs, *kernel = weight.shape
    grouped = x.reshape(weight, [groups, inputs // groups, outputs, *kernel])
    exchanged = x.transpose(grouped, [0, 2, 1, *range(3, grouped.rank)])
    joined = x.reshape(exchanged, [groups * outputs, inputs // groups, *kernel])
    return x.reverse(joined, list(range(2, joined.rank)))


def _weight_gradient(
    x: Builder, image: Value, moved: Value, g: Geometry, shape: Sequence[int]
) -> Value:
    """The correlation of an image with what a kernel of `shape` made of it, over the batch."""
    wide = dtypes.compute_dtype(image.dtype)
    if not image.size or not moved.size:
        return x.constant(0, wide, shape)
    rows = zip(
        image.shape[2:], moved.shape[2:], g.stride, g.padding, g.reach(shape[2:]), strict=True
    )
    padding = [(p, reach + s * (out - 1) + 1 - n - p) for n, out, s, p, reach in rows]
    return x.convolution(
        image,
        moved,
        strides=g.dilation,
        padding=padding,
        dilation=g.stride,
        batch_groups=g.groups,
        dimensions="[f, b, {s}]x[i, o, {s}]->[f, b, {s}]",
        accumulate=wide,
    )
