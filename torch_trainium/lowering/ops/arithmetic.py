"""Addition to powers, division in its three ways, and rounding."""

from __future__ import annotations

import math

import torch

from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.ops.functions import sqrt
from torch_trainium.lowering.pointwise import pointwise
from torch_trainium.lowering.promotion import result_dtype
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Number, Operand, Value

aten = torch.ops.aten


@pointwise(aten.add.Tensor, aten.add.Scalar, rounded=False, held=("alpha",))
def add(x: Builder, a: Value, b: Value, *, alpha: Value) -> Value:
    if a.dtype is torch.bool:
        return a | (b & alpha)
    return a + b * alpha


@pointwise(aten.sub.Tensor, aten.sub.Scalar, rounded=False, held=("alpha",))
def sub(x: Builder, a: Value, b: Value, *, alpha: Value) -> Value:
    return a - b * alpha


@pointwise(aten.mul.Tensor, aten.mul.Scalar, rounded=False)
def mul(x: Builder, a: Value, b: Value) -> Value:
    return a & b if a.dtype is torch.bool else a * b


@pointwise(aten.div.Tensor, aten.div.Scalar, result="float", rounded=False)
def div(x: Builder, a: Value, b: Value) -> Value:
    return a / b


@pointwise(aten.neg)
def neg(x: Builder, a: Value) -> Value:
    return -a


@pointwise(aten.abs, result="real")
def abs_(x: Builder, a: Value) -> Value:
    return a if a.dtype in (torch.bool, torch.uint8) else x.abs(a)


@lower(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(x: Builder, a: Operand, b: Operand, *, rounding_mode: str | None) -> Value:
    if rounding_mode is None:
        return div(x, a, b)
    return _floor_divide(x, a, b) if rounding_mode == "floor" else _trunc_divide(x, a, b)


@pointwise(aten.floor_divide, rounded=False)
def _floor_divide(x: Builder, a: Value, b: Value) -> Value:
    if not a.dtype.is_floating_point:
        quotient = _checked_divide(x, a, b)
        inexact = x.remainder(a, x.select(b.eq(0), 1, b)).ne(0)
        negative = (a < 0) ^ (b < 0)
        return quotient - (inexact & negative).to(a.dtype)
    # As Python's floor division: exact where a - a % b is a multiple of b.
    rest = x.remainder(a, b)
    exact = (a - rest) / b
    exact = x.select(rest.ne(0) & ((rest < 0) ^ (b < 0)), exact - 1, exact)
    floored = x.floor(exact)
    floored = x.select(exact - floored > 0.5, floored + 1, floored)
    # A zero has the sign of the quotient.
    return x.select(b.eq(0), a / b, x.select(exact.eq(0), a / b * 0, floored))


@pointwise(rounded=False)
def _trunc_divide(x: Builder, a: Value, b: Value) -> Value:
    if not a.dtype.is_floating_point:
        return _checked_divide(x, a, b)
    return _trunc(x, a / b)


def _checked_divide(x: Builder, a: Value, b: Value) -> Value:
    return a / _not_zero(x, b)


@pointwise(aten.rsub.Tensor, aten.rsub.Scalar, rounded=False, held=("alpha",))
def rsub(x: Builder, a: Value, b: Value, *, alpha: Value) -> Value:
    return b - a * alpha


@pointwise(aten.reciprocal, result="float")
def reciprocal(x: Builder, a: Value) -> Value:
    return 1 / a


@pointwise(aten.fmod.Tensor, aten.fmod.Scalar)
def fmod(x: Builder, a: Value, b: Value) -> Value:
    return x.remainder(a, b if a.dtype.is_floating_point else _not_zero(x, b))


@pointwise(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor)
def remainder(x: Builder, a: Value, b: Value) -> Value:
    rest = x.remainder(a, b if a.dtype.is_floating_point else _not_zero(x, b))
    return x.select(rest.ne(0) & ((rest < 0) ^ (b < 0)), rest + b, rest)


@pointwise(aten.pow.Tensor_Tensor, aten.pow.Scalar)
def pow_(x: Builder, a: Value, b: Value) -> Value:
    if a.dtype is torch.bool:
        return a | ~b
    if not dtypes.is_integral(a.dtype):
        power = x.power(a, b)
        return _power_of_zero(x, a, b, power) if a.dtype.is_complex else power
    power = _integer_power(x, *x.broadcast_together(a, x.maximum(b, 0)))
    odd = (b & x.constant(1, b.dtype)).ne(0)
    unit = x.select(a.eq(1) | (a.eq(-1) & ~odd), 1, x.select(a.eq(-1), a, 0))
    return x.select(b < 0, unit, power) if a.dtype.is_signed else power


def _power_of_zero(x: Builder, a: Value, b: Value, power: Value) -> Value:
    """What exp(b * log(a)) is where a is a complex zero."""
    nan = complex(math.nan, math.nan)
    return x.select(a.eq(0), x.select(x.real(b) > 0, x.constant(0, a.dtype), nan), power)


def _integer_power(x: Builder, a: Value, b: Value) -> Value:
    """By repeated squaring, overflow and all; StableHLO's power leaves overflow open."""
    one = x.constant(1, a.dtype, a.shape)

    def step(power: Value, base: Value, rest: Value) -> list[Value]:
        is_odd = (rest & x.constant(1, rest.dtype, rest.shape)).ne(0)
        return [x.select(is_odd, power * base, power), base * base, x.shift_right(rest, 1)]

    return x.while_([one, a, b], lambda power, base, rest: x.any(rest.ne(0)), step)[0]


@lower(aten.pow.Tensor_Scalar, static=("exponent",))
def pow_scalar(x: Builder, a: Value, exponent: Number) -> Value:
    dtype = result_dtype([a, exponent])
    if dtypes.is_integral(dtype) and exponent < 0:  # type: ignore[operator]
        raise LoweringError("Integers to negative integer powers are not allowed.")
    base = a.to(dtypes.compute_dtype(dtype))
    return _to_power(x, base, _rounded(exponent, dtype)).to(dtype)


def _rounded(number: Number, dtype: torch.dtype) -> Number:
    rounded: Number = torch.tensor(number, dtype=dtype, device="cpu").item()
    return rounded if dtype.is_floating_point else number


def _to_power(x: Builder, base: Value, exponent: Number) -> Value:
    if exponent in (2, 3):
        return base * base if exponent == 2 else base * base * base
    if exponent == 0:
        return x.constant(1, base.dtype, base.shape)
    if exponent == 0.5 and not dtypes.is_integral(base.dtype):
        return sqrt(x, base)
    if base.dtype.is_floating_point and exponent in (-0.5, -1, -2):
        return x.rsqrt(base) if exponent == -0.5 else 1 / (base if exponent == -1 else base * base)
    return pow_(x, base, exponent)


@pointwise(aten.addcmul)
def addcmul(x: Builder, a: Value, b: Value, c: Value, *, value: Value) -> Value:
    return a + value * b * c


@pointwise(aten.addcdiv)
def addcdiv(x: Builder, a: Value, b: Value, c: Value, *, value: Value) -> Value:
    return a + value * b / c


@pointwise(aten.lerp.Scalar)
def lerp_scalar(x: Builder, a: Value, b: Value, *, weight: Value) -> Value:
    return lerp(x, a, b, weight)


@pointwise(aten.lerp.Tensor)
def lerp(x: Builder, a: Value, b: Value, weight: Value) -> Value:
    """From the nearer end, so that weights 0 and 1 give the ends exactly."""
    distance = b - a
    near = x.abs(weight) < 0.5 if weight.dtype.is_complex else weight < 0.5
    return x.select(near, a + weight * distance, b - distance * (1 - weight))


@pointwise(aten.sign, aten.sgn)
def sign(x: Builder, a: Value) -> Value:
    if a.dtype is torch.bool:
        return a
    if a.dtype.is_complex:
        size = x.abs(a)
        zero = size.eq(0)
        return x.select(zero, 0, a / x.select(zero, 1, size).to(a.dtype))
    # NaN has no sign, it gives 0.
    return x.select(a > 0, 1, x.select(a < 0, x.constant(-1, a.dtype), 0))


@pointwise(aten.ceil)
def ceil(x: Builder, a: Value) -> Value:
    return x.ceil(a) if a.dtype.is_floating_point else a


@pointwise(aten.floor)
def floor(x: Builder, a: Value) -> Value:
    return x.floor(a) if a.dtype.is_floating_point else a


@pointwise(aten.trunc)
def trunc(x: Builder, a: Value) -> Value:
    return _trunc(x, a) if a.dtype.is_floating_point else a


@pointwise(aten.frac)
def frac(x: Builder, a: Value) -> Value:
    return a - _trunc(x, a)


@pointwise(aten.round)
def round_(x: Builder, a: Value) -> Value:
    return x.round(a) if a.dtype.is_floating_point else a


@pointwise(aten.round.decimals, static=("decimals",))
def round_decimals(x: Builder, a: Value, *, decimals: int) -> Value:
    if not a.dtype.is_floating_point:
        return a
    scale = 10.0 ** abs(decimals)
    return x.round(a * scale) / scale if decimals >= 0 else x.round(a / scale) * scale


def _trunc(x: Builder, a: Value) -> Value:
    return x.select(a < 0, x.ceil(a), x.floor(a))


def _not_zero(x: Builder, b: Value) -> Value:
    x.check(b.eq(0), RuntimeError, "ZeroDivisionError")
    return x.select(b.eq(0), 1, b)


@lower(aten.frexp.Tensor)
def frexp(x: Builder, a: Value) -> tuple[Value, Value]:
    """Mantissa and exponent, from the bits; subnormal numbers are scaled into sight first.

    Those that stay out of sight, because the target takes them for zero, have exponent 0 as zero.
    """
    wide = a.to(dtypes.compute_dtype(a.dtype))
    integer, width, bias, scale = _FLOATS[wide.dtype]
    small = x.abs(wide) < torch.finfo(wide.dtype).tiny
    bits = x.bitcast(x.select(small, wide * 2.0**scale, wide), integer)
    mask = x.constant((1 << (_bits(integer) - 1 - width)) - 1, integer)
    field = x.shift_right_logical(bits, width) & mask
    exponent = (field - bias).to(torch.int32) - x.select(small, scale, x.constant(0, torch.int32))
    exponent_bits = x.shift_left(mask, width)
    mantissa = x.bitcast((bits & ~exponent_bits) | x.constant(bias << width, integer), wide.dtype)
    plain = x.is_finite(wide) & field.ne(0)
    return x.select(plain, mantissa, wide).to(a.dtype), x.select(plain, exponent, 0)


# Integers of the same width, bits of the mantissa, the exponent field of [1/2, 1), and a scale
# that leaves no number subnormal.
_FLOATS = {torch.float32: (torch.int32, 23, 126, 24), torch.float64: (torch.int64, 52, 1022, 54)}


def _bits(dtype: torch.dtype) -> int:
    return dtype.itemsize * 8
