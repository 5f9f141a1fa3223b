"""Activations and their gradients."""

from __future__ import annotations

import math

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.pointwise import pointwise
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


@pointwise(aten.sigmoid, result="float")
def sigmoid(x: Builder, a: Value) -> Value:
    return x.logistic(a)


@pointwise(aten.relu)
def relu(x: Builder, a: Value) -> Value:
    return x.select(a < 0, 0, a)  # keeps NaN, and -0.0 as the CPU does


@pointwise(aten.gelu, static=("approximate",))
def gelu(x: Builder, a: Value, *, approximate: str) -> Value:
    if approximate == "none":
        return a * 0.5 * (1 + x.chlo_unary("Erf", a * 0.5**0.5))
    inner = math.sqrt(2 / math.pi) * (a + 0.044715 * a * a * a)
    return 0.5 * a * (1 + x.tanh(inner))


@pointwise(aten.sigmoid_backward)
def sigmoid_backward(x: Builder, grad: Value, result: Value) -> Value:
    return grad * x.conj((1 - result) * result)


@pointwise(aten.tanh_backward)
def tanh_backward(x: Builder, grad: Value, result: Value) -> Value:
    return grad * x.conj(1 - result * result)


@pointwise(aten.silu)
def silu(x: Builder, a: Value) -> Value:
    return a / (1 + x.exp(-a)) if a.dtype.is_complex else a * x.logistic(a)


@pointwise(aten.silu_backward)
def silu_backward(x: Builder, grad: Value, a: Value) -> Value:
    gate = x.logistic(a)
    return grad * gate * (1 + a * (1 - gate))


@pointwise(aten.gelu_backward, static=("approximate",))
def gelu_backward(x: Builder, grad: Value, a: Value, *, approximate: str) -> Value:
    if approximate == "none":
        normal = 0.5 * (1 + x.chlo_unary("Erf", a * 0.5**0.5))
        density = x.exp(-0.5 * a * a) * (1 / math.sqrt(2 * math.pi))
        return grad * (normal + a * density)
    slope = math.sqrt(2 / math.pi)
    gate = x.tanh(slope * (a + 0.044715 * a * a * a))
    inner = slope * (1 + 3 * 0.044715 * a * a)
    return grad * 0.5 * (1 + gate + a * (1 - gate * gate) * inner)


@pointwise(aten.softshrink_backward, aten.hardshrink_backward)
def shrink_backward(x: Builder, grad: Value, a: Value, *, lambd: Value) -> Value:
    return x.select(x.abs(a) <= lambd, 0, grad)


@pointwise(aten.softshrink)
def softshrink(x: Builder, a: Value, *, lambd: Value) -> Value:
    inside = x.select(x.is_nan(a), a, 0)
    return x.select(a > lambd, a - lambd, x.select(a < -lambd, a + lambd, inside))
