"""Tensors from nothing but numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from torch_trainium.lowering import dtypes
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
    return _ramp(x, start, step, reference.numel(), reference.dtype)


@lower(aten.arange.start, static=("start", "end"))
def arange_start(x: Builder, start: Number, end: Number, *, dtype: torch.dtype | None) -> Value:
    return arange(x, start, end, 1, dtype=dtype)


@lower(aten.arange, static=("end",))
def arange_end(x: Builder, end: Number, *, dtype: torch.dtype | None) -> Value:
    return arange(x, 0, end, 1, dtype=dtype)


@lower(aten.range.step, static=("start", "end", "step"))
def range_with_end(
    x: Builder, start: Number, end: Number, step: Number, *, dtype: torch.dtype | None
) -> Value:
    if isinstance(start, complex) or isinstance(end, complex) or isinstance(step, complex):
        raise RuntimeError("range takes no complex numbers")
    length = int((end - start) / step) + 1
    return _ramp(x, start, step, length, dtype or torch.get_default_dtype())


# So many bits of a float32 leave room for a product with an index up to 4096.
_SHORT_BITS = 12


def _ramp(x: Builder, start: Number, step: Number, length: int, dtype: torch.dtype) -> Value:
    """start + i * step; in float32 with the rest of the step added at last, as if in float64."""
    if isinstance(start, complex) or isinstance(step, complex):
        raise RuntimeError("arange takes no complex numbers")
    if not dtype.is_floating_point:
        index = x.iota(torch.int64, [length]) if dtype is torch.bool else x.iota(dtype, [length])
        return (index * int(step) + int(start)).to(dtype)
    wide = dtypes.compute_dtype(dtype)
    index = x.iota(torch.int32, [length]).to(wide)
    if wide is torch.float64:
        return index * step + start
    mantissa, exponent = math.frexp(step)
    short = math.ldexp(round(math.ldexp(mantissa, _SHORT_BITS)), exponent - _SHORT_BITS)
    return (index * short + start + index * (step - short)).to(dtype)


@lower(
    aten.linspace,
    aten.linspace.Tensor_Tensor,
    aten.linspace.Tensor_Scalar,
    aten.linspace.Scalar_Tensor,
)
def linspace(
    x: Builder, start: Operand, end: Operand, steps: int, *, dtype: torch.dtype | None
) -> Value:
    is_complex = any(isinstance(o, Scalar) and o.kind is complex for o in (start, end))
    default = torch.get_default_dtype()
    dtype = dtype or (default.to_complex() if is_complex else default)
    is_integer = not (dtype.is_floating_point or dtype.is_complex)
    # The first and the last become integers before the step between them is one.
    wide = torch.float64 if is_integer else dtypes.compute_dtype(dtype)
    first, last = (x.number(o, dtype if is_integer else wide).to(wide) for o in (start, end))
    if steps < 2:
        return x.broadcast(first, [steps]).to(dtype)
    step = _quotient(last - first, steps - 1)
    index = x.iota(torch.int32, [steps])
    from_first = first + step * index.to(wide)
    from_last = last - step * (steps - 1 - index).to(wide)
    return x.select(index < steps // 2, from_first, from_last).to(dtype)


def _quotient(a: Value, divisor: int) -> Value:
    """`a / divisor`, rounded once: compilers multiply by the reciprocal of a constant instead."""
    near = a / divisor
    return near + (a - near * divisor) / divisor
