"""Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


def _transform(x: Builder, a: Value, kind: str, dim: int, length: int) -> Value:
    """StableHLO's transform along one dimension; the inverse ones divide by the length."""
    order = [d for d in range(a.rank) if d != dim] + [dim]
    inverse = sorted(range(a.rank), key=order.__getitem__)
    type_ = x.hlo.FftTypeAttr.get(kind)
    real = dtypes.real_dtype(a.dtype)
    result_dtype = real if kind == "IRFFT" else dtypes.complex_dtype(real)
    transformed = x.emit(x.hlo.FftOp(x.transpose(a, order).ir, type_, [length]), result_dtype)
    return x.transpose(transformed, inverse)


def _normalized(a: Value, sizes: Sequence[int], normalization: int, *, divided: bool) -> Value:
    """By nothing, the root of the number of elements, or that number: 0, 1, 2 as in PyTorch."""
    size = math.prod(sizes)
    factor = {0: 1.0, 1: 1 / math.sqrt(size), 2: 1 / size}[normalization]
    return a * (factor * size if divided else factor)


@lower(aten._fft_c2c)
def c2c(x: Builder, a: Value, dim: list[int], normalization: int, forward: bool) -> Value:
    dims = [x.dimension(a, d) for d in dim]
    if not dims or not a.size:
        return a
    result = a
    for d in dims:
        result = _transform(x, result, "FFT" if forward else "IFFT", d, a.shape[d])
    return _normalized(result, [a.shape[d] for d in dims], normalization, divided=not forward)


@lower(aten._fft_r2c)
def r2c(x: Builder, a: Value, dim: list[int], normalization: int, onesided: bool) -> Value:
    if not onesided:
        return c2c(x, a.to(dtypes.complex_dtype(a.dtype)), dim, normalization, True)
    *others, last = (x.dimension(a, d) for d in dim)
    result = _transform(x, a, "RFFT", last, a.shape[last])
    for d in others:
        result = _transform(x, result, "FFT", d, a.shape[d])
    return _normalized(result, [a.shape[d] for d in dim], normalization, divided=False)


@lower(aten._fft_c2r)
def c2r(x: Builder, a: Value, dim: list[int], normalization: int, last_dim_size: int) -> Value:
    *others, last = (x.dimension(a, d) for d in dim)
    result = a
    for d in others:
        result = _transform(x, result, "IFFT", d, a.shape[d])
    result = _transform(x, result, "IRFFT", last, last_dim_size)
    sizes = [*(a.shape[d] for d in others), last_dim_size]
    return _normalized(result, sizes, normalization, divided=True)
