"""Addition to powers, with division in its three ways, and bits."""

from __future__ import annotations

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.pointwise import pointwise
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Operand, Value

aten = torch.ops.aten


@pointwise(aten.add.Tensor, aten.add.Scalar)
def add(x: Builder, a: Value, b: Value, *, alpha: Value) -> Value:
    if a.dtype is torch.bool:
        return a | (b & alpha)
    return a + b * alpha


@pointwise(aten.sub.Tensor, aten.sub.Scalar)
def sub(x: Builder, a: Value, b: Value, *, alpha: Value) -> Value:
    return a - b * alpha


@pointwise(aten.mul.Tensor, aten.mul.Scalar)
def mul(x: Builder, a: Value, b: Value) -> Value:
    return a & b if a.dtype is torch.bool else a * b


@pointwise(aten.div.Tensor, aten.div.Scalar, result="float")
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


@pointwise(aten.floor_divide)
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
    zero = x.select(a / b < 0, x.constant(-0.0, a.dtype), 0)
    return x.select(b.eq(0), a / b, x.select(exact.eq(0), zero, floored))


@pointwise()
def _trunc_divide(x: Builder, a: Value, b: Value) -> Value:
    if not a.dtype.is_floating_point:
        return _checked_divide(x, a, b)
    quotient = a / b
    return x.select(quotient < 0, x.ceil(quotient), x.floor(quotient))


def _checked_divide(x: Builder, a: Value, b: Value) -> Value:
    x.check(b.eq(0), RuntimeError, "ZeroDivisionError")
    return a / x.select(b.eq(0), 1, b)
