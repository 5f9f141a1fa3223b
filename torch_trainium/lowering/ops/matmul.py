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


@lower(aten.addmm, aten.baddbmm)
def addmm(x: Builder, bias: Value, a: Value, b: Value, *, beta: Operand, alpha: Operand) -> Value:
    wide = dtypes.compute_dtype(a.dtype)
    scaled = x.dot(a, b, accumulate=wide) * x.number(alpha, wide)
    factor = x.number(beta, wide)
    # A beta of zero ignores the bias, NaN and all.
    kept = x.select(factor.eq(0), x.constant(0, wide), bias.to(wide) * factor)
    return (kept + scaled).to(a.dtype)
