"""Activations and their gradients."""

from __future__ import annotations

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
    return x.maximum(a, 0)


@pointwise(aten.gelu, static=("approximate",))
def gelu(x: Builder, a: Value, *, approximate: str) -> Value:
    if approximate == "none":
        return a * 0.5 * (1 + x.chlo_unary("Erf", a * 0.5**0.5))
    inner = 0.7978845608028654 * (a + 0.044715 * a * a * a)
    return 0.5 * a * (1 + x.tanh(inner))
