"""Bits, shifts and common divisors of integers."""

from __future__ import annotations

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.pointwise import pointwise
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


@pointwise(
    aten.bitwise_and.Tensor,
    aten.bitwise_and.Scalar,
    aten.bitwise_and.Scalar_Tensor,
    aten.__and__.Tensor,
    aten.__and__.Scalar,
)
def bitwise_and(x: Builder, a: Value, b: Value) -> Value:
    return a & b


@pointwise(
    aten.bitwise_or.Tensor,
    aten.bitwise_or.Scalar,
    aten.bitwise_or.Scalar_Tensor,
    aten.__or__.Tensor,
    aten.__or__.Scalar,
)
def bitwise_or(x: Builder, a: Value, b: Value) -> Value:
    return a | b


@pointwise(
    aten.bitwise_xor.Tensor,
    aten.bitwise_xor.Scalar,
    aten.bitwise_xor.Scalar_Tensor,
    aten.__xor__.Tensor,
    aten.__xor__.Scalar,
)
def bitwise_xor(x: Builder, a: Value, b: Value) -> Value:
    return a ^ b


@pointwise(aten.bitwise_not)
def bitwise_not(x: Builder, a: Value) -> Value:
    return ~a


@pointwise(
    aten.bitwise_left_shift.Tensor,
    aten.bitwise_left_shift.Tensor_Scalar,
    aten.bitwise_left_shift.Scalar_Tensor,
    aten.__lshift__.Tensor,
    aten.__lshift__.Scalar,
)
def left_shift(x: Builder, a: Value, b: Value) -> Value:
    if a.dtype.is_floating_point:
        return a * x.power(2, b)
    return x.shift_left(a, b)


@pointwise(
    aten.bitwise_right_shift.Tensor,
    aten.bitwise_right_shift.Tensor_Scalar,
    aten.bitwise_right_shift.Scalar_Tensor,
    aten.__rshift__.Tensor,
    aten.__rshift__.Scalar,
)
def right_shift(x: Builder, a: Value, b: Value) -> Value:
    if a.dtype.is_floating_point:
        return a / x.power(2, b)
    return x.shift_right(a, b)


@pointwise(aten.gcd)
def gcd(x: Builder, a: Value, b: Value) -> Value:
    """Euclid's algorithm, all elements at once until the last has ended."""
    a, b = x.broadcast_together(a, b)
    if not a.size:
        return a
    greatest, _ = x.while_(
        [a, b],
        lambda a, b: x.any(b.ne(0)),
        lambda a, b: [x.select(b.eq(0), a, b), x.select(b.eq(0), b, _rest(x, a, b))],
    )
    return x.abs(greatest) if a.dtype.is_signed else greatest


def _rest(x: Builder, a: Value, b: Value) -> Value:
    return x.remainder(a, x.select(b.eq(0), 1, b))


@pointwise(aten.lcm)
def lcm(x: Builder, a: Value, b: Value) -> Value:
    divisor = gcd(x, a, b)
    multiple = a / x.select(divisor.eq(0), 1, divisor) * b
    multiple = x.select(divisor.eq(0), 0, multiple)
    return x.abs(multiple) if a.dtype.is_signed else multiple
