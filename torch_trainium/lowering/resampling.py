"""Resampling along a dimension: each result is a weighted sum of elements known beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.values import Value


@dataclass(frozen=True)
class Taps:
    """What each place of the result reads.

    Attributes:
        places: integers of shape (length of the result, elements read for each).
        weights: what they are multiplied by, or None for 1.

    """

    places: Any
    weights: Any = None


def resample(x: Builder, a: Value, dim: int, taps: Taps) -> Value:
    """`a` with its dimension replaced by the sums that the taps describe."""
    dim = x.dimension(a, dim)
    if taps.weights is None:
        return x.take(a, x.vector(taps.places[:, 0], torch.int32), dim)
    read = x.take(a, _places(x, taps), dim)
    return x.sum(read * _weights(x, taps, read, dim), [dim + 1])


def resample_backward(x: Builder, grad: Value, dim: int, taps: Taps, length: int) -> Value:
    """The gradient of what was resampled, with `length` in that dimension."""
    dim = x.dimension(grad, dim)
    zeros = x.constant(0, grad.dtype, [*grad.shape[:dim], length, *grad.shape[dim + 1 :]])
    shape = [*grad.shape[: dim + 1], taps.places.shape[1], *grad.shape[dim + 1 :]]
    spread = x.broadcast(x.unsqueeze(grad, dim + 1), shape)
    if taps.weights is not None:
        spread = spread * _weights(x, taps, spread, dim)
    return x.put_slices(zeros, _places(x, taps), spread, dim, x.add)


def resample_all(x: Builder, a: Value, taps: Sequence[Taps]) -> Value:
    """The last dimensions resampled, one after another."""
    for d, tap in enumerate(taps):
        a = resample(x, a, a.rank - len(taps) + d, tap)
    return a


def resample_all_backward(
    x: Builder, grad: Value, taps: Sequence[Taps], lengths: Sequence[int]
) -> Value:
    """The gradient of that."""
    for d, (tap, length) in enumerate(zip(taps, lengths, strict=True)):
        grad = resample_backward(x, grad, grad.rank - len(taps) + d, tap, length)
    return grad


def one_tap(places: Any) -> Taps:
    """Elements moved, not summed."""
    return Taps(numpy.asarray(places).reshape(-1, 1))


def _places(x: Builder, taps: Taps) -> Value:
    return x.reshape(x.vector(taps.places.reshape(-1), torch.int32), taps.places.shape)


def _weights(x: Builder, taps: Taps, like: Value, dim: int) -> Value:
    flat = x.vector(taps.weights.reshape(-1), like.dtype)
    behind = [1] * (like.rank - dim - 2)
    return x.reshape(flat, [1] * dim + [*taps.weights.shape] + behind)
