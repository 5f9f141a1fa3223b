"""Softmax, its logarithm and their gradients."""

from __future__ import annotations

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


def _wide(a: Value) -> Value:
    return a.to(dtypes.compute_dtype(a.dtype))


def softmax_of(x: Builder, a: Value, dim: int) -> Value:
    """Exponents as shares of their sum."""
    if not a.size:
        return a
    exponents = x.exp(a - x.max(a, [dim], keepdim=True))
    return exponents / x.sum(exponents, [dim], keepdim=True)


@lower(aten._softmax)
def softmax(x: Builder, a: Value, dim: int, half_to_float: bool) -> Value:
    return softmax_of(x, _wide(a), dim).to(torch.float32 if half_to_float else a.dtype)


@lower(aten._log_softmax)
def log_softmax(x: Builder, a: Value, dim: int, half_to_float: bool) -> Value:
    wide = _wide(a)
    if a.size:
        shifted = wide - x.max(wide, [dim], keepdim=True)
        wide = shifted - x.log(x.sum(x.exp(shifted), [dim], keepdim=True))
    return wide.to(torch.float32 if half_to_float else a.dtype)


@lower(aten._softmax_backward_data)
def softmax_backward(
    x: Builder, grad: Value, output: Value, dim: int, input_dtype: torch.dtype
) -> Value:
    result = _wide(output)
    weighted = _wide(grad) * result
    return (weighted - result * x.sum(weighted, [dim], keepdim=True)).to(input_dtype)


@lower(aten._log_softmax_backward_data)
def log_softmax_backward(
    x: Builder, grad: Value, output: Value, dim: int, input_dtype: torch.dtype
) -> Value:
    wide = _wide(grad)
    total = x.sum(wide, [dim], keepdim=True)
    return (wide - x.exp(_wide(output)) * total).to(input_dtype)


@lower(aten._safe_softmax)
def safe_softmax(x: Builder, a: Value, dim: int, dtype: torch.dtype | None) -> Value:
    wide = _wide(a.to(dtype or a.dtype))
    masked = x.all(wide.eq(-float("inf")), [dim], keepdim=True)
    shares = x.select(masked, x.constant(0, wide.dtype), softmax_of(x, wide, dim))
    return shares.to(dtype or a.dtype)


@lower(aten._masked_softmax)
def masked_softmax(
    x: Builder, a: Value, mask: Value, dim: int | None, mask_type: int | None
) -> Value:
    dim = a.rank - 1 if dim is None else dim
    if mask_type == 0:  # queries by keys
        mask = x.reshape(mask, [1, 1, *mask.shape])
    elif mask_type == 1:  # batch by keys
        mask = x.reshape(mask, [mask.shape[0], 1, 1, mask.shape[1]])
    wide = _wide(a)
    shares = softmax_of(x, x.select(mask, x.constant(-float("inf"), wide.dtype), wide), dim)
    return x.select(mask, x.constant(0, shares.dtype), shares).to(a.dtype)


@lower(aten._masked_softmax_backward)
def masked_softmax_backward(
    x: Builder, grad: Value, output: Value, mask: Value, dim: int | None
) -> Value:
    dim = grad.rank - 1 if dim is None else dim
    inner = softmax_backward(x, grad, output, dim, grad.dtype)
    return x.select(mask, x.constant(0, grad.dtype), inner)
