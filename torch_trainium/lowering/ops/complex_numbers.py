"""Complex numbers from their parts and back."""

from __future__ import annotations

import math

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.pointwise import pointwise
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


@lower(aten.complex)
def complex_(x: Builder, real: Value, imag: Value) -> Value:
    return x.complex(real, imag)


@lower(aten.polar)
def polar(x: Builder, size: Value, angle: Value) -> Value:
    return x.complex(size * x.cos(angle), size * x.sin(angle))


@lower(aten.angle)
def angle(x: Builder, a: Value) -> Value:
    if a.dtype.is_complex:
        return x.atan2(x.imag(a), x.real(a))
    return _angle_of_real(x, a)


@pointwise(result="float")
def _angle_of_real(x: Builder, a: Value) -> Value:
    return x.select(x.is_nan(a), a, x.select(a < 0, math.pi, x.constant(0, a.dtype)))


@lower(aten.conj_physical, aten._conj, aten._conj_physical, aten._conj_copy)
def conj(x: Builder, a: Value) -> Value:
    return x.conj(a)


@lower(aten._neg_view, aten._neg_view_copy)
def neg_view(x: Builder, a: Value) -> Value:
    return -a


@lower(aten.real)
def real(x: Builder, a: Value) -> Value:
    return x.real(a)


@lower(aten.imag)
def imag(x: Builder, a: Value) -> Value:
    return x.imag(a)


@lower(aten.view_as_real, aten.view_as_real_copy)
def view_as_real(x: Builder, a: Value) -> Value:
    return x.stack([x.real(a), x.imag(a)], dim=a.rank)


@lower(aten.view_as_complex, aten.view_as_complex_copy)
def view_as_complex(x: Builder, a: Value) -> Value:
    parts = [x.slice_in_dim(a, -1, i, i + 1) for i in range(2)]
    return x.complex(*(x.squeeze(part, [-1]) for part in parts))
