"""Exponentials, logarithms, trigonometry and special functions."""

from __future__ import annotations

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.pointwise import pointwise
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


@pointwise(aten.exp, result="float")
def exp(x: Builder, a: Value) -> Value:
    return x.exp(a)


@pointwise(aten.tanh, result="float")
def tanh(x: Builder, a: Value) -> Value:
    return x.tanh(a)


@pointwise(aten.sqrt, result="float")
def sqrt(x: Builder, a: Value) -> Value:
    return x.sqrt(a)


@pointwise(aten.rsqrt, result="float")
def rsqrt(x: Builder, a: Value) -> Value:
    return x.rsqrt(a)
