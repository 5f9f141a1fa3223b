"""Losses, distances and their gradients."""

from __future__ import annotations

import math

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Operand, Value

aten = torch.ops.aten

MEAN = 1  # at::Reduction


@lower(aten._cdist_forward, static=("p",))
def cdist(x: Builder, a: Value, b: Value, p: float, compute_mode: int | None) -> Value:
    return _norm(x, _between_rows(x, a, b), p)


@lower(aten._cdist_backward, static=("p",))
def cdist_backward(x: Builder, grad: Value, a: Value, b: Value, p: float, distance: Value) -> Value:
    difference = _between_rows(x, a, b)
    each = _norm_gradient(x, difference, x.unsqueeze(grad, -1), x.unsqueeze(distance, -1), p)
    return x.sum(each, [-2])


def _between_rows(x: Builder, a: Value, b: Value) -> Value:
    """Differences of every row of `a` to every row of `b`: [..., P, R, M]."""
    return x.unsqueeze(a, -2) - x.unsqueeze(b, -3)


def _norm(x: Builder, difference: Value, p: float) -> Value:
    """The p-norm over the last dimension."""
    size = x.abs(difference)
    if p == 0:
        return x.sum(size.ne(0).to(size.dtype), [-1])
    if p == math.inf:
        # Of no numbers the norm is zero.
        return x.maximum(x.max(size, [-1]), 0)
    if p == 1:
        return x.sum(size, [-1])
    if p == 2:
        return x.sqrt(x.sum(size * size, [-1]))
    return x.power(x.sum(x.power(size, p), [-1]), 1 / p)


def _norm_gradient(x: Builder, difference: Value, grad: Value, distance: Value, p: float) -> Value:
    """Of each difference; zero where the distance is, which has no gradient there."""
    if p == 0:
        return x.constant(0, difference.dtype, difference.shape)
    size, sign = x.abs(difference), x.select(difference.ne(0), x.sign(difference), 0)
    if p == 1:
        return grad * sign
    if p == math.inf:
        return grad * sign * size.eq(distance).to(size.dtype)
    safe = x.select(distance.eq(0), 1, distance)
    if p == 2:
        each = grad * difference / safe
    else:
        powers = x.power(x.select(size.eq(0), 1, size), p - 1) / x.power(safe, p - 1)
        each = grad * sign * powers
    return x.select(distance.eq(0), 0, each)


@lower(aten._pdist_forward, static=("p",))
def pdist(x: Builder, a: Value, p: float) -> Value:
    return _norm(x, _between_pairs(x, a), p)


@lower(aten._pdist_backward, static=("p",))
def pdist_backward(x: Builder, grad: Value, a: Value, p: float, distance: Value) -> Value:
    if a.size == 0 or a.shape[0] < 2:
        return x.constant(0, a.dtype, a.shape)
    first, second = _pairs(x, a.shape[0])
    difference = x.take(a, first) - x.take(a, second)
    each = _norm_gradient(x, difference, x.unsqueeze(grad, -1), x.unsqueeze(distance, -1), p)
    rows = x.iota(torch.int32, [a.shape[0], 1])
    incidence = rows.eq(first).to(a.dtype) - rows.eq(second).to(a.dtype)
    return x.matmul(incidence, each)


def _between_pairs(x: Builder, a: Value) -> Value:
    if a.shape[0] < 2:
        return x.constant(0, a.dtype, [0, a.shape[1]])
    first, second = _pairs(x, a.shape[0])
    return x.take(a, first) - x.take(a, second)


def _pairs(x: Builder, rows: int) -> tuple[Value, Value]:
    """Indices i < j of all pairs, in order."""
    counts = [rows - 1 - i for i in range(rows - 1)]
    first = [x.constant(i, torch.int32, [n]) for i, n in enumerate(counts)]
    second = [x.iota(torch.int32, [n]) + (rows - n) for n in counts]
    return x.concatenate(first, 0), x.concatenate(second, 0)


@lower(aten.multi_margin_loss_backward)
def multi_margin_loss_backward(
    x: Builder,
    grad: Value,
    a: Value,
    target: Value,
    p: Operand,
    margin: Operand,
    weight: Value | None,
    reduction: int,
) -> Value:
    wide = dtypes.compute_dtype(a.dtype)
    scores = x.reshape(a.to(wide), [-1, a.shape[-1] if a.rank else 1])
    rows, classes = scores.shape
    target = _checked_class(x, x.reshape(target, [rows, 1]), classes)
    is_target = x.iota(torch.int64, [1, classes], 1).eq(target)
    hit = x.sum(x.select(is_target, scores, 0), [1], keepdim=True)
    over = x.number(margin, wide) - hit + scores
    each = x.select(x.number(p, wide).eq(1), 1, 2 * over)
    if weight is not None:
        row = x.reshape(weight.to(wide), [1, classes])
        each = each * x.sum(x.select(is_target, row, 0), [1], keepdim=True)
    pushed = x.select((over > 0) & ~is_target, each, 0)
    pulled = -x.sum(pushed, [1], keepdim=True)
    result = x.select(is_target, pulled, pushed) * _per_row(x, grad.to(wide), rows, reduction)
    return x.reshape(result / classes, a.shape).to(a.dtype)


@lower(aten.multilabel_margin_loss_backward)
def multilabel_margin_loss_backward(
    x: Builder, grad: Value, a: Value, target: Value, reduction: int, is_target: Value
) -> Value:
    wide = dtypes.compute_dtype(a.dtype)
    scores = x.reshape(a.to(wide), [-1, a.shape[-1] if a.rank else 1])
    rows, classes = scores.shape
    target = x.reshape(target, [rows, classes])
    place = x.iota(torch.int32, [rows, classes], 1)
    end = x.min(x.select(target < 0, place, classes), [1], keepdim=True)
    # [row, which of its targets, class]
    listed = x.unsqueeze(place < end, 2)
    here = x.iota(torch.int64, [1, 1, classes], 2).eq(x.unsqueeze(target, 2)) & listed
    hit = x.sum(x.select(here, x.unsqueeze(scores, 1), 0), [2], keepdim=True)
    other = x.unsqueeze(x.reshape(is_target, [rows, classes]).eq(0), 1)
    violated = (1 - hit + x.unsqueeze(scores, 1) > 0) & listed & other
    pushed = violated.to(wide)
    pulled = here.to(wide) * x.sum(pushed, [2], keepdim=True)
    result = x.sum(pushed - pulled, [1]) * _per_row(x, grad.to(wide), rows, reduction)
    return x.reshape(result / classes, a.shape).to(a.dtype)


def _per_row(x: Builder, grad: Value, rows: int, reduction: int) -> Value:
    grad = x.reshape(grad, [-1, 1])
    return grad / rows if reduction == MEAN and rows else grad


def _checked_class(x: Builder, target: Value, classes: int) -> Value:
    failed = (target < 0) | (target >= classes)
    x.check(failed, IndexError, f"target out of range: it must lie in [0, {classes})")
    return target
