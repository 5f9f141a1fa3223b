"""Copies, conversions and fills."""

from __future__ import annotations

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Operand, Value

aten = torch.ops.aten


@lower(
    aten.clone,
    aten.detach,
    aten.alias,
    aten.lift_fresh,
    aten.lift_fresh_copy,
    aten.contiguous,
    aten.detach_copy,
    aten.alias_copy,
)
def clone(x: Builder, a: Value) -> Value:
    return a


@lower(aten._to_copy)
def to_copy(x: Builder, a: Value, *, dtype: torch.dtype | None) -> Value:
    return a.to(dtype or a.dtype)


@lower(aten.copy)
def copy(x: Builder, a: Value, source: Operand, non_blocking: bool) -> Value:
    return x.broadcast(x.number(source, a.dtype), a.shape)


@lower(aten.fill.Scalar, aten.fill.Tensor)
def fill(x: Builder, a: Value, value: Operand) -> Value:
    if a.size == 1 and not isinstance(value, Value):  # which the CPU fills in the wider dtype
        wide = dtypes.compute_dtype(a.dtype)
        return x.broadcast(x.held_number(value, wide, wide).to(a.dtype), a.shape)
    return x.broadcast(x.stored_number(value, a.dtype), a.shape)


@lower(aten.zero)
def zero(x: Builder, a: Value) -> Value:
    return x.constant(0, a.dtype, a.shape)
