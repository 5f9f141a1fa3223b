"""Products of matrices."""

from __future__ import annotations

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Operand, Value

aten = torch.ops.aten


@lower(aten.mm, aten.bmm)
def mm(x: Builder, a: Value, b: Value) -> Value:
    return x.matmul(a, b)


def _combined(x: Builder, bias: Value, product: Value, beta: Operand, alpha: Operand) -> Value:
    """`beta * bias + alpha * product`; a beta of zero ignores the bias, NaN and all."""
    wide = product.dtype
    factor = x.number(beta, wide)
    kept = x.select(factor.eq(0), x.constant(0, wide), bias.to(wide) * factor)
    return kept + product * x.number(alpha, wide)


@lower(aten.addmm, aten.baddbmm)
def addmm(x: Builder, bias: Value, a: Value, b: Value, *, beta: Operand, alpha: Operand) -> Value:
    product = x.dot(a, b, accumulate=dtypes.compute_dtype(a.dtype))
    return _combined(x, bias, product, beta, alpha).to(a.dtype)


@lower(aten.addbmm)
def addbmm(x: Builder, bias: Value, a: Value, b: Value, *, beta: Operand, alpha: Operand) -> Value:
    wide = dtypes.compute_dtype(a.dtype)
    product = x.dot_general(a, b, [0, 2], [0, 1], accumulate=wide)
    return _combined(x, bias, product, beta, alpha).to(a.dtype)


@lower(aten.mv)
def mv(x: Builder, a: Value, vector: Value) -> Value:
    wide = dtypes.compute_dtype(a.dtype)
    return x.dot_general(a, vector, [1], [0], accumulate=wide).to(a.dtype)


@lower(aten.addmv)
def addmv(
    x: Builder, bias: Value, a: Value, vector: Value, *, beta: Operand, alpha: Operand
) -> Value:
    product = x.dot_general(a, vector, [1], [0], accumulate=dtypes.compute_dtype(a.dtype))
    return _combined(x, bias, product, beta, alpha).to(a.dtype)


@lower(aten.dot)
def dot(x: Builder, a: Value, b: Value) -> Value:
    wide = dtypes.compute_dtype(a.dtype)
    return x.dot_general(a, b, [0], [0], accumulate=wide).to(a.dtype)


@lower(aten.vdot)
def vdot(x: Builder, a: Value, b: Value) -> Value:
    return dot(x, x.conj(a), b)


@lower(aten._int_mm)
def int_mm(x: Builder, a: Value, b: Value) -> Value:
    return x.dot(a, b, accumulate=torch.int32)


@lower(aten._scaled_mm)
def scaled_mm(
    x: Builder,
    a: Value,
    b: Value,
    scale_a: Value,
    scale_b: Value,
    bias: Value | None,
    scale_result: Value | None,
    out_dtype: torch.dtype | None,
    use_fast_accum: bool,
) -> Value:
    product = x.dot(a, b, accumulate=torch.float32) * scale_a * scale_b
    if bias is not None:
        product = product + bias.to(torch.float32)
    result = out_dtype or a.dtype
    if scale_result is not None and result.itemsize == 1:
        product = product * scale_result
    return product.to(result)


@lower(aten._trilinear)
def trilinear(
    x: Builder,
    first: Value,
    second: Value,
    third: Value,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int,
) -> Value:
    factors = []
    for value, new_dims in zip((first, second, third), (expand1, expand2, expand3), strict=True):
        factor = value.to(dtypes.compute_dtype(value.dtype))
        for d in new_dims:
            factor = x.unsqueeze(factor, d)
        factors.append(factor)
    product = factors[0] * factors[1] * factors[2]
    return (x.sum(product, sumdim) if sumdim else product).to(first.dtype)
