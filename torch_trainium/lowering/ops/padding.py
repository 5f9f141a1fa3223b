"""Padding by a constant, reflection or replication, and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.resampling import (
    Taps,
    one_tap,
    resample_all,
    resample_all_backward,
)
from torch_trainium.lowering.values import Operand, Value

aten = torch.ops.aten


@lower(aten.constant_pad_nd)
def constant_pad_nd(x: Builder, a: Value, pad: Sequence[int], value: Operand) -> Value:
    untouched = a.rank - len(pad) // 2
    low = [0] * untouched + list(pad[0::2])[::-1]
    high = [0] * untouched + list(pad[1::2])[::-1]
    return x.pad(a, x.number(value, a.dtype), low, high)


@lower(aten.reflection_pad1d, aten.reflection_pad2d, aten.reflection_pad3d)
def reflection_pad(x: Builder, a: Value, padding: Sequence[int]) -> Value:
    return resample_all(x, a, _taps(a.shape, padding, _reflected))


@lower(aten.replication_pad1d, aten.replication_pad2d, aten.replication_pad3d)
def replication_pad(x: Builder, a: Value, padding: Sequence[int]) -> Value:
    return resample_all(x, a, _taps(a.shape, padding, _replicated))


@lower(
    aten.reflection_pad1d_backward, aten.reflection_pad2d_backward, aten.reflection_pad3d_backward
)
def reflection_pad_backward(x: Builder, grad: Value, a: Value, padding: Sequence[int]) -> Value:
    return _backward(x, grad, a, _taps(a.shape, padding, _reflected))


@lower(
    aten.replication_pad1d_backward,
    aten.replication_pad2d_backward,
    aten.replication_pad3d_backward,
)
def replication_pad_backward(x: Builder, grad: Value, a: Value, padding: Sequence[int]) -> Value:
    return _backward(x, grad, a, _taps(a.shape, padding, _replicated))


def _backward(x: Builder, grad: Value, a: Value, taps: Sequence[Taps]) -> Value:
    wide = grad.to(dtypes.compute_dtype(grad.dtype))
    lengths = a.shape[a.rank - len(taps) :]
    return resample_all_backward(x, wide, taps, lengths).to(a.dtype)


def _taps(shape: Sequence[int], padding: Sequence[int], source: Any) -> list[Taps]:
    """For the padded dimensions in order; `padding` begins with the last."""
    count = len(padding) // 2
    taps = []
    for d in range(count):
        low, high = padding[2 * (count - 1 - d) :][:2]
        length = shape[len(shape) - count + d]
        taps.append(one_tap(source(numpy.arange(-low, length + high), length)))
    return taps


def _reflected(places: Any, length: int) -> Any:
    last = length - 1
    return last - abs(last - abs(places))


def _replicated(places: Any, length: int) -> Any:
    return numpy.clip(places, 0, length - 1)
