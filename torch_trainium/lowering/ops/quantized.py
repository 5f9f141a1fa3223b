"""Quantization to integers and back."""

from __future__ import annotations

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Operand, Value

aten = torch.ops.aten


def _levels(x: Builder, a: Value, scale: Value, zero_point: Value) -> Value:
    """The nearest level of each element, before the range is applied."""
    return x.round(a.to(torch.float32) * (1 / scale)) + zero_point


def _faked(
    x: Builder, a: Value, scale: Value, zero_point: Value, low: int, high: int
) -> tuple[Value, Value]:
    """Elements rounded to levels, and which of them lay within the range."""
    level = _levels(x, a, scale, zero_point)
    inside = (level >= low) & (level <= high)
    return ((x.clamp(low, level, high) - zero_point) * scale).to(a.dtype), inside


@lower(aten.fake_quantize_per_tensor_affine_cachemask)
def per_tensor(
    x: Builder, a: Value, scale: Operand, zero_point: int, low: int, high: int
) -> tuple[Value, Value]:
    zero = x.constant(zero_point, torch.float32)
    return _faked(x, a, x.number(scale, torch.float32), zero, low, high)


@lower(aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams)
def per_tensor_qparams(
    x: Builder, a: Value, scale: Value, zero_point: Value, enabled: Value, low: int, high: int
) -> tuple[Value, Value]:
    first_scale, first_zero = (_first(x, v) for v in (scale, zero_point))
    faked, inside = _faked(x, a, first_scale, first_zero, low, high)
    on = _first(x, enabled).ne(0)
    return x.select(on, faked, a), inside | ~x.broadcast(on, a.shape)


@lower(aten.fake_quantize_per_channel_affine_cachemask)
def per_channel(
    x: Builder, a: Value, scale: Value, zero_point: Value, axis: int, low: int, high: int
) -> tuple[Value, Value]:
    scales, zeros = (_along(x, v, axis, a.rank) for v in (scale, zero_point))
    return _faked(x, a, scales, zeros, low, high)


@lower(aten._fake_quantize_learnable_per_tensor_affine)
def learnable_per_tensor(
    x: Builder, a: Value, scale: Value, zero_point: Value, low: int, high: int, factor: Operand
) -> Value:
    zero = x.clamp(low, x.round(_first(x, zero_point)), high)
    return _faked(x, a, _first(x, scale), zero, low, high)[0]


@lower(aten._fake_quantize_learnable_per_channel_affine)
def learnable_per_channel(
    x: Builder,
    a: Value,
    scale: Value,
    zero_point: Value,
    axis: int,
    low: int,
    high: int,
    factor: Operand,
) -> Value:
    zeros = x.clamp(low, x.round(_along(x, zero_point, axis, a.rank)), high)
    return _faked(x, a, _along(x, scale, axis, a.rank), zeros, low, high)[0]


@lower(aten._fake_quantize_learnable_per_tensor_affine_backward)
def learnable_per_tensor_backward(
    x: Builder,
    grad: Value,
    a: Value,
    scale: Value,
    zero_point: Value,
    low: int,
    high: int,
    factor: Operand,
) -> tuple[Value, Value, Value]:
    parts = _learnable_gradients(
        x, grad, a, _first(x, scale), _first(x, zero_point), low, high, factor
    )
    of_scale, of_zero = (x.reshape(x.sum(part), [1]) for part in parts[1:])
    return parts[0].to(a.dtype), of_scale.to(scale.dtype), of_zero.to(zero_point.dtype)


@lower(aten._fake_quantize_learnable_per_channel_affine_backward)
def learnable_per_channel_backward(
    x: Builder,
    grad: Value,
    a: Value,
    scale: Value,
    zero_point: Value,
    axis: int,
    low: int,
    high: int,
    factor: Operand,
) -> tuple[Value, Value, Value]:
    scales, zeros = (_along(x, v, axis, a.rank) for v in (scale, zero_point))
    parts = _learnable_gradients(x, grad, a, scales, zeros, low, high, factor)
    others = [d for d in range(a.rank) if d != x.dimension(a, axis)]
    of_scale, of_zero = (x.sum(part, others) if others else part for part in parts[1:])
    return parts[0].to(a.dtype), of_scale.to(scale.dtype), of_zero.to(zero_point.dtype)


def _learnable_gradients(
    x: Builder,
    grad: Value,
    a: Value,
    scale: Value,
    zero_point: Value,
    low: int,
    high: int,
    factor: Operand,
) -> list[Value]:
    """The gradients of input, scale and zero point, element by element."""
    zero = x.clamp(low, x.round(zero_point), high)
    wide, wide_grad = a.to(torch.float32), grad.to(torch.float32)
    level = _levels(x, a, scale, zero)
    below, above = level < low, level > high
    inside = ~(below | above)
    nothing = x.constant(0, torch.float32)
    faked = (x.clamp(low, level, high) - zero) * scale
    within = (faked - wide) / scale
    slope = x.select(below, low - zero, x.select(above, high - zero, within))
    share = x.number(factor, torch.float32)
    return [
        x.select(inside, wide_grad, nothing),
        wide_grad * slope * share,
        x.select(inside, nothing, -wide_grad * scale) * share,
    ]


def _first(x: Builder, a: Value) -> Value:
    """The only element of an array, in float32."""
    return x.reshape(a.to(torch.float32), [])


def _along(x: Builder, row: Value, axis: int, rank: int) -> Value:
    """A number for each channel, in float32, to broadcast over the other dimensions."""
    axis = axis + rank if axis < 0 else axis
    return x.reshape(row.to(torch.float32), [-1 if d == axis else 1 for d in range(rank)])
