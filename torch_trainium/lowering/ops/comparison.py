"""Comparisons, logic, choices and extremes of two."""

from __future__ import annotations

import torch

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
    return x.select(mask, x.number(value, a.dtype), a)
