"""Losses and their gradients."""

from __future__ import annotations

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Operand, Value

aten = torch.ops.aten

MEAN, SUM = 1, 2  # at::Reduction


@lower(aten.soft_margin_loss)
def soft_margin_loss(x: Builder, a: Value, target: Value, reduction: int) -> Value:
    """log(1 + exp(-target * a)), in PyTorch's operators: half types overflow where they do."""
    power = x.call(aten.exp.default, _negated_product(x, a, target))
    loss = x.call(aten.log1p.default, power)
    if reduction == MEAN:
        return x.call(aten.mean.default, loss)
    return x.call(aten.sum.default, loss) if reduction == SUM else loss


@lower(aten.soft_margin_loss_backward)
def soft_margin_loss_backward(
    x: Builder, grad: Value, a: Value, target: Value, reduction: int
) -> Value:
    power = x.call(aten.exp.default, _negated_product(x, a, target))
    slope = x.call(aten.mul.Tensor, x.call(aten.neg.default, target), power)
    slope = x.call(aten.div.Tensor, slope, x.call(aten.add.Scalar, power, 1))
    slope = x.call(aten.mul.Tensor, slope, grad)
    count = x.broadcast_together(a, target)[0].size
    return x.call(aten.div.Scalar, slope, count) if reduction == MEAN else slope


def _negated_product(x: Builder, a: Value, target: Value) -> Value:
    return x.call(aten.mul.Tensor, x.call(aten.neg.default, a), target)


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
