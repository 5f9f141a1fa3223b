"""Tensors from nothing but numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Number, Operand, Scalar, Value

aten = torch.ops.aten


@lower(aten.full)
def full(
    x: Builder, size: Sequence[int], fill_value: Operand, *, dtype: torch.dtype | None
) -> Value:
    kind = fill_value.kind if isinstance(fill_value, Scalar) else type(fill_value)
    default = {bool: torch.bool, int: torch.int64, complex: torch.complex64}.get(kind)
    return x.broadcast(
        x.stored_number(fill_value, dtype or default or torch.get_default_dtype()), size
    )


@lower(aten.zeros, aten.empty.memory_format)
def zeros(x: Builder, size: Sequence[int], *, dtype: torch.dtype | None) -> Value:
    return x.constant(0, dtype or torch.get_default_dtype(), size)


@lower(aten.empty_strided)
def empty_strided(
    x: Builder, size: Sequence[int], stride: Sequence[int], *, dtype: torch.dtype | None
) -> Value:
    return zeros(x, size, dtype=dtype)


@lower(aten.ones)
def ones(x: Builder, size: Sequence[int], *, dtype: torch.dtype | None) -> Value:
    return x.constant(1, dtype or torch.get_default_dtype(), size)


@lower(aten.scalar_tensor)
def scalar_tensor(x: Builder, number: Operand, *, dtype: torch.dtype | None) -> Value:
    return x.number(number, dtype or torch.get_default_dtype())


@lower(aten.full_like)
def full_like(x: Builder, a: Value, fill_value: Operand, *, dtype: torch.dtype | None) -> Value:
    return x.broadcast(x.stored_number(fill_value, dtype or a.dtype), a.shape)


@lower(aten.zeros_like, aten.empty_like)
def zeros_like(x: Builder, a: Value, *, dtype: torch.dtype | None) -> Value:
    return x.constant(0, dtype or a.dtype, a.shape)


@lower(aten.ones_like)
def ones_like(x: Builder, a: Value, *, dtype: torch.dtype | None) -> Value:
    return x.constant(1, dtype or a.dtype, a.shape)


@lower(aten.new_zeros, aten.new_empty)
def new_zeros(x: Builder, a: Value, size: Sequence[int], *, dtype: torch.dtype | None) -> Value:
    return x.constant(0, dtype or a.dtype, size)


@lower(aten.new_empty_strided)
def new_empty_strided(
    x: Builder,
    a: Value,
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: torch.dtype | None,
) -> Value:
    return x.constant(0, dtype or a.dtype, size)


@lower(aten.new_ones)
def new_ones(x: Builder, a: Value, size: Sequence[int], *, dtype: torch.dtype | None) -> Value:
    return x.constant(1, dtype or a.dtype, size)


@lower(aten.new_full)
def new_full(
    x: Builder,
    a: Value,
    size: Sequence[int],
    fill_value: Operand,
    *,
    dtype: torch.dtype | None,
) -> Value:
    return x.broadcast(x.stored_number(fill_value, dtype or a.dtype), size)


@lower(aten.arange.start_step, static=("start", "end", "step"))
def arange(
    x: Builder, start: Number, end: Number, step: Number, *, dtype: torch.dtype | None
) -> Value:
    reference = torch.arange(start, end, step, dtype=dtype, device="meta")
    index = x.iota(torch.int64, reference.shape)
    if reference.dtype.is_floating_point:
        index = index.to(torch.float64)
    return (index * step + start).to(reference.dtype)


@lower(aten.arange.start, static=("start", "end"))
def arange_start(x: Builder, start: Number, end: Number, *, dtype: torch.dtype | None) -> Value:
    return arange(x, start, end, 1, dtype=dtype)


@lower(aten.arange, static=("end",))
def arange_end(x: Builder, end: Number, *, dtype: torch.dtype | None) -> Value:
    return arange(x, 0, end, 1, dtype=dtype)
