"""Softmax, its logarithm and their gradients."""

from __future__ import annotations

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


@lower(aten._softmax)
def softmax(x: Builder, a: Value, dim: int, half_to_float: bool) -> Value:
    wide = a.to(dtypes.compute_dtype(a.dtype))
    exponents = x.exp(wide - x.max(wide, [dim], keepdim=True)) if a.size else wide
    return (exponents / x.sum(exponents, [dim], keepdim=True)).to(
        torch.float32 if half_to_float else a.dtype
    )
