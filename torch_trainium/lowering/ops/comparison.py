"""Comparisons, logic, choices and extremes of two."""

from __future__ import annotations

import math

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.pointwise import pointwise
from torch_trainium.lowering.promotion import result_dtype
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Operand, Value

aten = torch.ops.aten


@pointwise(aten.eq.Tensor, aten.eq.Scalar, result="bool")
def eq(x: Builder, a: Value, b: Value) -> Value:
    return a.eq(b)


@pointwise(aten.ne.Tensor, aten.ne.Scalar, result="bool")
def ne(x: Builder, a: Value, b: Value) -> Value:
    return a.ne(b)


@pointwise(aten.lt.Tensor, aten.lt.Scalar, result="bool")
def lt(x: Builder, a: Value, b: Value) -> Value:
    return a < b


@pointwise(aten.le.Tensor, aten.le.Scalar, result="bool")
def le(x: Builder, a: Value, b: Value) -> Value:
    return a <= b


@pointwise(aten.gt.Tensor, aten.gt.Scalar, result="bool")
def gt(x: Builder, a: Value, b: Value) -> Value:
    return a > b


@pointwise(aten.ge.Tensor, aten.ge.Scalar, result="bool")
def ge(x: Builder, a: Value, b: Value) -> Value:
    return a >= b


@lower(aten.where.self)
def where(x: Builder, condition: Value, a: Operand, b: Operand) -> Value:
    dtype = result_dtype([a, b])
    return x.select(condition.to(torch.bool), x.number(a, dtype), x.number(b, dtype))


@lower(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(x: Builder, a: Value, mask: Value, value: Operand) -> Value:
    return x.select(mask, x.stored_number(value, a.dtype), a)


@pointwise(aten.maximum)
def maximum(x: Builder, a: Value, b: Value) -> Value:
    return x.maximum(a, b)


@pointwise(aten.minimum)
def minimum(x: Builder, a: Value, b: Value) -> Value:
    return x.minimum(a, b)


@pointwise(aten.fmax)
def fmax(x: Builder, a: Value, b: Value) -> Value:
    return _unless_nan(x, a, b, x.maximum(a, b))


@pointwise(aten.fmin)
def fmin(x: Builder, a: Value, b: Value) -> Value:
    return _unless_nan(x, a, b, x.minimum(a, b))


def _unless_nan(x: Builder, a: Value, b: Value, extreme: Value) -> Value:
    return x.select(x.is_nan(a), b, x.select(x.is_nan(b), a, extreme))


@pointwise(aten.clamp, aten.clamp.Tensor, held=("low", "high"))
def clamp(x: Builder, a: Value, low: Value | None, high: Value | None) -> Value:
    a = a if low is None else x.maximum(a, low)
    return a if high is None else x.minimum(a, high)


@pointwise(aten.clamp_min, aten.clamp_min.Tensor, held=("low",))
def clamp_min(x: Builder, a: Value, low: Value) -> Value:
    return x.maximum(a, low)


@pointwise(aten.clamp_max, aten.clamp_max.Tensor, held=("high",))
def clamp_max(x: Builder, a: Value, high: Value) -> Value:
    return x.minimum(a, high)


@lower(aten.logical_and)
def logical_and(x: Builder, a: Value, b: Value) -> Value:
    return x.and_(a.to(torch.bool), b.to(torch.bool))


@lower(aten.logical_or)
def logical_or(x: Builder, a: Value, b: Value) -> Value:
    return x.or_(a.to(torch.bool), b.to(torch.bool))


@lower(aten.logical_xor)
def logical_xor(x: Builder, a: Value, b: Value) -> Value:
    return x.xor(a.to(torch.bool), b.to(torch.bool))


@lower(aten.logical_not)
def logical_not(x: Builder, a: Value) -> Value:
    return ~a.to(torch.bool)


@pointwise(aten.isnan, result="bool")
def isnan(x: Builder, a: Value) -> Value:
    return a.ne(a)


@pointwise(aten.isinf, result="bool")
def isinf(x: Builder, a: Value) -> Value:
    if a.dtype.is_complex:
        return x.is_inf(x.real(a)) | x.is_inf(x.imag(a))
    return x.is_inf(a) if a.dtype.is_floating_point else x.constant(False, torch.bool, a.shape)


@pointwise(aten.isposinf, result="bool")
def isposinf(x: Builder, a: Value) -> Value:
    return _is(x, a, math.inf)


@pointwise(aten.isneginf, result="bool")
def isneginf(x: Builder, a: Value) -> Value:
    return _is(x, a, -math.inf)


def _is(x: Builder, a: Value, infinity: float) -> Value:
    if a.dtype.is_floating_point:
        return a.eq(infinity)
    return x.constant(False, torch.bool, a.shape)


@pointwise(aten.signbit, result="bool")
def signbit(x: Builder, a: Value) -> Value:
    if a.dtype is torch.bool:
        return x.constant(False, torch.bool, a.shape)
    return x.has_sign(a) if a.dtype.is_floating_point else a < 0


@pointwise(aten.copysign.Tensor, aten.copysign.Scalar, result="float")
def copysign(x: Builder, a: Value, b: Value) -> Value:
    return x.copysign(a, b)


@pointwise(aten.heaviside)
def heaviside(x: Builder, a: Value, b: Value) -> Value:
    return x.select(a.eq(0), b, (a > 0).to(a.dtype))


@lower(aten.nextafter)
def nextafter(x: Builder, a: Value, b: Value) -> Value:
    dtype = result_dtype([a, b])
    a, b = x.broadcast_together(a.to(dtype), b.to(dtype))
    return x.emit(x.chlo.NextAfterOp(a.ir, b.ir), dtype)


@lower(aten.nan_to_num)
def nan_to_num(
    x: Builder, a: Value, nan: Operand | None, posinf: Operand | None, neginf: Operand | None
) -> Value:
    if dtypes.is_integral(a.dtype):
        return a
    limits = torch.finfo(dtypes.real_dtype(a.dtype))
    replacements = (
        0.0 if nan is None else nan,
        limits.max if posinf is None else posinf,
        limits.min if neginf is None else neginf,
    )

    def finite(part: Value) -> Value:
        number, high, low = (x.number(r, part.dtype) for r in replacements)
        part = x.select(part.eq(math.inf), high, x.select(part.eq(-math.inf), low, part))
        return x.select(x.is_nan(part), number, part)

    if a.dtype.is_complex:
        return x.complex(finite(x.real(a)), finite(x.imag(a)))
    return finite(a)
