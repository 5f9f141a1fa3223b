"""Exponentials, logarithms, trigonometry and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.pointwise import pointwise
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Operand, Value

aten = torch.ops.aten

OPERATIONS: dict[Any, Callable[[Builder, Value], Value]] = {
    aten.exp: Builder.exp,
    aten.expm1: Builder.expm1,
    aten.log: Builder.log,
    aten.log1p: Builder.log1p,
    aten.rsqrt: Builder.rsqrt,
    aten.sin: Builder.sin,
    aten.cos: Builder.cos,
    aten.tan: Builder.tan,
    aten.tanh: Builder.tanh,
}

# Functions that the CHLO dialect has.
CHLO = {
    aten.atan: "Atan",
    aten.atanh: "Atanh",
    aten.erf: "Erf",
    aten.erfc: "Erfc",
    aten.erfinv: "ErfInv",
    aten.lgamma: "Lgamma",
}


def _operation(overload: Any, compute: Callable[[Builder, Value], Value]) -> None:
    @pointwise(overload, result="float")
    def function(x: Builder, a: Value) -> Value:
        return compute(x, a)


def _chlo(overload: Any, name: str) -> None:
    _operation(overload, lambda x, a: x.chlo_unary(name, a))


for _overload, _compute in OPERATIONS.items():
    _operation(_overload, _compute)
for _overload, _name in CHLO.items():
    _chlo(_overload, _name)


@pointwise(aten.sqrt, result="float")
def sqrt(x: Builder, a: Value) -> Value:
    return _signed_imag(x, x.sqrt(a), x.imag(a)) if a.dtype.is_complex else x.sqrt(a)


@pointwise(aten.acos, result="float")
def acos(x: Builder, a: Value) -> Value:
    angle = x.chlo_unary("Acos", a)
    return _signed_imag(x, angle, -x.imag(a)) if a.dtype.is_complex else angle


@pointwise(aten.acosh, result="float")
def acosh(x: Builder, a: Value) -> Value:
    area = x.chlo_unary("Acosh", a)
    return _signed_imag(x, area, x.imag(a)) if a.dtype.is_complex else area


@pointwise(aten.asin, result="float")
def asin(x: Builder, a: Value) -> Value:
    angle = x.chlo_unary("Asin", a)
    return _signed_imag(x, angle, x.imag(a)) if a.dtype.is_complex else angle


@pointwise(aten.asinh, result="float")
def asinh(x: Builder, a: Value) -> Value:
    area = x.chlo_unary("Asinh", a)
    if not a.dtype.is_complex:
        return area
    return x.complex(x.copysign(x.real(area), x.real(a)), x.imag(area))


def _signed_imag(x: Builder, a: Value, sign: Value) -> Value:
    """The side of a branch cut that a zero's sign says, which XLA leaves out."""
    return x.complex(x.real(a), x.copysign(x.imag(a), sign))


@pointwise(aten.cosh, result="float")
def cosh(x: Builder, a: Value) -> Value:
    if a.dtype.is_complex:
        return x.chlo_unary("Cosh", a)
    half = _half_of_exp(x, x.abs(a))
    return half + 0.25 / half


@pointwise(aten.sinh, result="float")
def sinh(x: Builder, a: Value) -> Value:
    if a.dtype.is_complex:
        return x.chlo_unary("Sinh", a)
    half = _half_of_exp(x, x.abs(a))
    far = half - 0.25 / half
    less_one = x.expm1(a)  # near zero, where the difference of exponentials cancels
    near = 0.5 * (less_one + less_one / (less_one + 1))
    return x.select(x.abs(a) < 1, near, x.select(a < 0, -far, far))


def _half_of_exp(x: Builder, a: Value) -> Value:
    """exp(a) / 2, which does not overflow where only exp(a) does."""
    root = x.exp(a * 0.5)
    return (root * 0.5) * root


@pointwise(aten.digamma, result="float")
def digamma(x: Builder, a: Value) -> Value:
    # The pole at zero has a sign, those left of it have none.
    return x.select(a.eq(0), -1 / a, x.chlo_unary("Digamma", a))


@pointwise(aten.exp2, result="float")
def exp2(x: Builder, a: Value) -> Value:
    return x.exp(_scaled(x, a, math.log(2))) if a.dtype.is_complex else x.power(2, a)


@pointwise(aten.log2, result="float")
def log2(x: Builder, a: Value) -> Value:
    return _scaled(x, x.log(a), 1 / math.log(2))


@pointwise(aten.log10, result="float")
def log10(x: Builder, a: Value) -> Value:
    return _scaled(x, x.log(a), 1 / math.log(10))


def _scaled(x: Builder, a: Value, factor: float) -> Value:
    """Part by part: a complex factor would make NaN of infinity times zero."""
    if a.dtype.is_complex:
        return x.complex(x.real(a) * factor, x.imag(a) * factor)
    return a * factor


@pointwise(aten.atan2, result="float")
def atan2(x: Builder, a: Value, b: Value) -> Value:
    return x.atan2(a, b)


@pointwise(aten.sinc, result="float")
def sinc(x: Builder, a: Value) -> Value:
    angle = a * math.pi
    return x.select(a.eq(0), 1, x.sin(angle) / angle)


@pointwise(aten.deg2rad, result="float")
def deg2rad(x: Builder, a: Value) -> Value:
    return a * (math.pi / 180)


@pointwise(aten.rad2deg, result="float")
def rad2deg(x: Builder, a: Value) -> Value:
    return a * (180 / math.pi)


@pointwise(aten.hypot)
def hypot(x: Builder, a: Value, b: Value) -> Value:
    a, b = x.abs(a), x.abs(b)
    large, small = x.maximum(a, b), x.minimum(a, b)
    ratio = small / x.select(large.eq(0), 1, large)
    length = large * x.sqrt(1 + ratio * ratio)
    return x.select(x.is_inf(a) | x.is_inf(b), math.inf, length)


@pointwise(aten.logaddexp)
def logaddexp(x: Builder, a: Value, b: Value) -> Value:
    larger = x.real(a) >= x.real(b)
    high, low = x.select(larger, a, b), x.select(larger, b, a)
    total = high + x.log1p(x.exp(low - high))
    # Two equal infinities have no difference.
    return x.select(x.is_inf(x.real(a)) & a.eq(b), a, total)


@pointwise(aten.logaddexp2)
def logaddexp2(x: Builder, a: Value, b: Value) -> Value:
    high, low = x.maximum(a, b), x.minimum(a, b)
    total = high + x.log1p(x.power(2, low - high)) * (1 / math.log(2))
    return x.select(x.is_inf(a) & a.eq(b), a, total)


@pointwise(aten.xlogy.Tensor, aten.xlogy.Scalar_Self, aten.xlogy.Scalar_Other, result="float")
def xlogy(x: Builder, a: Value, b: Value) -> Value:
    return _zero_times(x, a, b, x.log(b))


@pointwise(
    aten.special_xlog1py,
    aten.special_xlog1py.self_scalar,
    aten.special_xlog1py.other_scalar,
    result="float",
)
def xlog1py(x: Builder, a: Value, b: Value) -> Value:
    return _zero_times(x, a, b, x.log1p(b))


def _zero_times(x: Builder, a: Value, b: Value, logarithm: Value) -> Value:
    """a * logarithm, where a zero makes zero of everything but NaN."""
    return x.select(x.is_nan(b), b, x.select(a.eq(0), 0, a * logarithm))


@pointwise(aten.special_entr, result="float")
def entr(x: Builder, a: Value) -> Value:
    entropy = x.select(a.eq(0), 0, -a * x.log(a))
    return x.select(a < 0, -math.inf, entropy)


@lower(aten.logit)
def logit(x: Builder, a: Value, eps: Operand | None) -> Value:
    dtype = torch.get_default_dtype() if dtypes.is_integral(a.dtype) else a.dtype
    wide = dtypes.compute_dtype(dtype)
    p = a.to(wide)
    if eps is not None:
        margin = x.number(eps, wide)
        p = x.clamp(margin, p, 1 - margin)
    # Rounded at every step, as PyTorch's CPU kernel: near 1/2 that is most of the result.
    complement = (1 - p).to(dtype).to(wide)
    odds = (p / complement).to(dtype).to(wide)
    return x.log(odds).to(dtype)


@lower(aten.logit_backward)
def logit_backward(x: Builder, grad: Value, a: Value, eps: Operand | None) -> Value:
    wide = dtypes.compute_dtype(a.dtype)
    p = a.to(wide)
    low = x.constant(0, wide) if eps is None else x.number(eps, wide)
    outside = (p < low) | (p > 1 - low)
    beyond = math.nan if eps is None else 0.0
    return x.select(outside, beyond, grad.to(wide) / (p * (1 - p))).to(a.dtype)
