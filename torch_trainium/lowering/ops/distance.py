"""Distances between rows, and their gradients."""

from __future__ import annotations

import math

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


def _norm(x: Builder, difference: Value, p: float) -> Value:
    """The p-norm along the last dimension."""
    distance = x.abs(difference)
    last = [difference.rank - 1]
    if not difference.shape[-1]:
        return x.constant(0, difference.dtype, difference.shape[:-1])
    if p == 0:
        return x.sum(distance.ne(0).to(difference.dtype), last)
    if p == 1:
        return x.sum(distance, last)
    if p == 2:
        return x.sqrt(x.sum(distance * distance, last))
    if p == math.inf:
        return x.max(distance, last)
    return x.power(x.sum(x.power(distance, p), last), 1 / p)


def _norm_gradient(x: Builder, grad: Value, difference: Value, norm: Value, p: float) -> Value:
    """Of the p-norm with respect to the difference; zero where it has no gradient."""
    grad, norm = x.unsqueeze(grad, grad.rank), x.unsqueeze(norm, norm.rank)
    zero = x.constant(0, difference.dtype)
    direction = x.sign(difference)
    distance = x.abs(difference)
    if p == 0:
        return x.broadcast(zero, difference.shape)
    if p == 1:
        return grad * direction
    if p == math.inf:
        return grad * x.select(distance.eq(norm), direction, zero)
    if p == 2:
        return x.select(norm.eq(0), zero, grad * difference / norm)
    slope = direction * x.power(distance, p - 1) * grad / x.power(norm, p - 1)
    flat = norm.eq(0)
    return x.select(flat | difference.eq(0) if p < 1 else flat, zero, slope)


def _differences(x: Builder, a: Value, b: Value) -> Value:
    """Every row of the one minus every row of the other."""
    return x.unsqueeze(a, a.rank - 1) - x.unsqueeze(b, b.rank - 2)


@lower(aten._cdist_forward, static=("p",))
def cdist(x: Builder, a: Value, b: Value, p: float, compute_mode: int | None) -> Value:
    wide = [v.to(dtypes.compute_dtype(v.dtype)) for v in (a, b)]
    return _norm(x, _differences(x, *wide), p).to(a.dtype)


@lower(aten._cdist_backward, static=("p",))
def cdist_backward(x: Builder, grad: Value, a: Value, b: Value, p: float, norm: Value) -> Value:
    difference = _differences(x, a, b)
    if not difference.size:
        return x.constant(0, a.dtype, a.shape)  # not even broadcast
    slope = _norm_gradient(x, grad, difference, norm, p)
    return x.sum(slope, [slope.rank - 2])


def _pairs(x: Builder, rows: int) -> tuple[Value, Value]:
    """The rows of each pair, first below second, in order."""
    count = rows * (rows - 1) // 2
    pair = x.iota(torch.int32, [count])
    half = rows - 0.5
    guess = half - x.sqrt(half * half - pair.to(torch.float32) * 2 - 1)
    first = x.clamp(0, guess.to(torch.int32), max(rows - 2, 0))

    def before(row: Value) -> Value:
        """How many pairs start with a row above this one."""
        return x.divide(row * (2 * rows - 1 - row), 2)

    # The square root may be off by one either way.
    first = first - (before(first) > pair).to(torch.int32)
    first = first + (before(first + 1) <= pair).to(torch.int32)
    return first, pair - before(first) + first + 1


@lower(aten._pdist_forward, static=("p",))
def pdist(x: Builder, a: Value, p: float) -> Value:
    if a.shape[0] < 2:
        return x.constant(0, a.dtype, [0])
    first, second = _pairs(x, a.shape[0])
    return _norm(x, x.take(a, first) - x.take(a, second), p)


@lower(aten._pdist_backward, static=("p",))
def pdist_backward(x: Builder, grad: Value, a: Value, p: float, norm: Value) -> Value:
    if a.shape[0] < 2 or not a.size:
        return x.constant(0, a.dtype, a.shape)
    first, second = _pairs(x, a.shape[0])
    slope = _norm_gradient(x, grad, x.take(a, first) - x.take(a, second), norm, p)
    return x.scatter(
        x.constant(0, a.dtype, a.shape),
        x.unsqueeze(x.concatenate([first, second], 0), 1),
        x.concatenate([slope, -slope], 0),
        lambda old, new: old + new,
        window_dims=[1],
        inserted_dims=[0],
        index_map=[0],
    )
