"""Batch, layer, group and RMS normalization, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.shape_functions import statistics_dtype
from torch_trainium.lowering.values import Operand, Value

aten = torch.ops.aten


def widened(a: Value) -> Value:
    return a.to(dtypes.compute_dtype(a.dtype))


def _moments(x: Builder, a: Value, dims: Sequence[int]) -> tuple[Value, Value]:
    """Mean and biased variance over some dimensions, which stay with length 1."""
    count = math.prod(a.shape[d] for d in dims)
    mean = x.sum(a, dims, keepdim=True) / count
    distance = a - mean
    return mean, x.sum(distance * distance, dims, keepdim=True) / count


def _scaled(a: Value, weight: Value | None, bias: Value | None) -> Value:
    """`a * weight + bias`, where there are such."""
    if weight is not None:
        a = a * weight.to(a.dtype)
    return a if bias is None else a + bias.to(a.dtype)


def _projected_out(
    x: Builder, grad: Value, normalized: Value, rstd: Value, dims: Sequence[int]
) -> Value:
    """The gradient of what was normalized over `dims`: a change of mean or scale does nothing."""
    count = math.prod(normalized.shape[d] for d in dims)
    mean = x.sum(grad, dims, keepdim=True) / count
    along = x.sum(grad * normalized, dims, keepdim=True) / count
    return (grad - mean - normalized * along) * rstd


# Batch normalization


def per_channel(x: Builder, row: Value, rank: int) -> Value:
    """One number per channel, as an array that broadcasts to `rank` dimensions."""
    return x.reshape(row, [-1 if d == 1 else 1 for d in range(rank)])


def _channel_row(x: Builder, a: Value) -> Value:
    return x.reshape(a, [a.size])


def all_but_channels(a: Value) -> list[int]:
    return [d for d in range(a.rank) if d != 1]


def normalized_channels(
    x: Builder,
    a: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    rstd: Value,
) -> Value:
    """Normalized with a mean and scale per channel."""
    wide = widened(a)
    shift, scale = (per_channel(x, v.to(wide.dtype), a.rank) for v in (mean, rstd))
    rows = [v if v is None else per_channel(x, v, a.rank) for v in (weight, bias)]
    return _scaled((wide - shift) * scale, rows[0], rows[1]).to(a.dtype)


def batch_statistics(x: Builder, a: Value) -> tuple[Value, Value]:
    """Mean and biased variance of each channel."""
    mean, variance = _moments(x, widened(a), all_but_channels(a))
    return _channel_row(x, mean), _channel_row(x, variance)


def rstd_of(x: Builder, variance: Value, eps: Operand) -> Value:
    return x.rsqrt(variance + x.number(eps, variance.dtype))


def kept_statistics(
    x: Builder, mean: Value, variance: Value, eps: Operand, dtype: torch.dtype
) -> tuple[Value, Value]:
    """Mean and scale as they are kept for the gradient, and taken from there by the result."""
    return mean.to(dtype), rstd_of(x, variance, eps).to(dtype)


def moved_statistic(x: Builder, running: Value, now: Value, momentum: Operand) -> Value:
    """A running statistic, moved towards that of this batch."""
    share = x.number(momentum, now.dtype)
    return running.to(now.dtype) * (1 - share) + now * share


@lower(aten._native_batch_norm_legit.no_stats)
def batch_norm_no_stats(
    x: Builder,
    a: Value,
    weight: Value | None,
    bias: Value | None,
    training: bool,
    momentum: Operand,
    eps: Operand,
) -> tuple[Value, ...]:
    mean, variance = batch_statistics(x, a)
    kept = kept_statistics(x, mean, variance, eps, statistics_dtype(a, weight, bias))
    return normalized_channels(x, a, weight, bias, *kept), *kept


@lower(aten.native_batch_norm)
def native_batch_norm(
    x: Builder,
    a: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: Operand,
    eps: Operand,
) -> tuple[Value, ...]:
    # With running statistics it writes to them, and is the functional form below.
    stats = (running_mean, running_var)
    return batch_norm_functional(x, a, weight, bias, *stats, training, momentum, eps)[:3]


@lower(aten._native_batch_norm_legit_functional)
def batch_norm_functional(
    x: Builder,
    a: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: Operand,
    eps: Operand,
) -> tuple[Value, ...]:
    if running_mean is None or running_var is None:
        return batch_norm_no_stats(x, a, weight, bias, training, momentum, eps)
    if not training:
        stats = (running_mean, running_var)
        results = batch_norm_inference(x, a, weight, bias, *stats, momentum, eps)
        return *results, *(widened(v) for v in stats)
    mean, variance = batch_statistics(x, a)
    dtype = statistics_dtype(a, weight, bias, running_mean)
    kept = kept_statistics(x, mean, variance, eps, dtype)
    samples = a.size // max(a.shape[1], 1)
    unbiased = variance * (samples / (samples - 1) if samples > 1 else math.nan)
    return (
        normalized_channels(x, a, weight, bias, *kept),
        *kept,
        moved_statistic(x, running_mean, mean, momentum),
        moved_statistic(x, running_var, unbiased, momentum),
    )


@lower(aten._native_batch_norm_legit_no_training)
def batch_norm_inference(
    x: Builder,
    a: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: Operand,
    eps: Operand,
) -> tuple[Value, ...]:
    mean, rstd = widened(running_mean), rstd_of(x, widened(running_var), eps)
    nothing = x.constant(0, statistics_dtype(a, weight, bias, running_mean), [0])
    return normalized_channels(x, a, weight, bias, mean, rstd), nothing, nothing


@lower(aten._batch_norm_with_update_functional)
def batch_norm_with_update(
    x: Builder,
    a: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: Operand,
    eps: Operand,
) -> tuple[Value, ...]:
    stats = (running_mean, running_var)
    result, mean, rstd, *moved = batch_norm_functional(
        x, a, weight, bias, *stats, True, momentum, eps
    )
    return result, mean, rstd, x.constant(0, torch.uint8, [0]), *moved


@lower(aten.native_batch_norm_backward)
def batch_norm_backward(
    x: Builder,
    grad: Value,
    a: Value,
    weight: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    mean: Value | None,
    rstd: Value | None,
    train: bool,
    eps: Operand,
    output_mask: list[bool],
) -> tuple[Value | None, ...]:
    wide, wide_grad = widened(a), widened(grad)
    if not train:
        assert running_mean is not None and running_var is not None
        mean, rstd = running_mean, rstd_of(x, widened(running_var), eps)
    assert mean is not None and rstd is not None
    scale = per_channel(x, rstd.to(wide.dtype), a.rank)
    normalized = (wide - per_channel(x, mean.to(wide.dtype), a.rank)) * scale
    rows = all_but_channels(a)
    row_dtype = weight.dtype if weight is not None else a.dtype
    inner = wide_grad
    if weight is not None:
        inner = inner * per_channel(x, weight.to(wide.dtype), a.rank)
    of_input = _projected_out(x, inner, normalized, scale, rows) if train else inner * scale
    results = (
        of_input.to(a.dtype),
        x.sum(wide_grad * normalized, rows).to(row_dtype),
        x.sum(wide_grad, rows).to(row_dtype),
    )
    return tuple(r if wanted else None for r, wanted in zip(results, output_mask, strict=True))


@lower(aten.batch_norm_backward)
def batch_norm_backward_with_reserve(
    x: Builder,
    grad: Value,
    a: Value,
    weight: Value,
    running_mean: Value | None,
    running_var: Value | None,
    mean: Value | None,
    rstd: Value | None,
    update: bool,
    eps: Operand,
    output_mask: list[bool],
    reserve: Value,
) -> tuple[Value | None, ...]:
    stats = (running_mean, running_var, mean, rstd)
    return batch_norm_backward(x, grad, a, weight, *stats, update, eps, output_mask)


# Layer and RMS normalization, over the last dimensions


def _last(a: Value, normalized_shape: Sequence[int]) -> list[int]:
    return list(range(a.rank - len(normalized_shape), a.rank))


@lower(aten.native_layer_norm)
def layer_norm(
    x: Builder,
    a: Value,
    normalized_shape: list[int],
    weight: Value | None,
    bias: Value | None,
    eps: Operand,
) -> tuple[Value, Value, Value]:
    wide = widened(a)
    mean, variance = _moments(x, wide, _last(a, normalized_shape))
    rstd = rstd_of(x, variance, eps)
    result = _scaled((wide - mean) * rstd, weight, bias).to(a.dtype)
    dtype = statistics_dtype(a, weight, bias)
    return result, mean.to(dtype), rstd.to(dtype)


@lower(aten.native_layer_norm_backward)
def layer_norm_backward(
    x: Builder,
    grad: Value,
    a: Value,
    normalized_shape: list[int],
    mean: Value,
    rstd: Value,
    weight: Value | None,
    bias: Value | None,
    output_mask: list[bool],
) -> tuple[Value | None, ...]:
    wide, wide_grad = widened(a), widened(grad)
    scale = rstd.to(wide.dtype)
    normalized = (wide - mean.to(wide.dtype)) * scale
    last = _last(a, normalized_shape)
    rows = list(range(a.rank - len(last)))
    inner = _projected_out(x, _scaled(wide_grad, weight, None), normalized, scale, last)
    results = (
        inner.to(a.dtype),
        _sum_rows(x, wide_grad * normalized, rows, weight),
        _sum_rows(x, wide_grad, rows, bias),
    )
    return tuple(r if wanted else None for r, wanted in zip(results, output_mask, strict=True))


def _sum_rows(x: Builder, a: Value, rows: list[int], like: Value | None) -> Value | None:
    """The gradient of a parameter that all rows share; none where there is no parameter."""
    if like is None:
        return None
    return (x.sum(a, rows) if rows else a).to(like.dtype)


@lower(aten._fused_rms_norm, static=("eps",))
def rms_norm(
    x: Builder, a: Value, normalized_shape: list[int], weight: Value | None, eps: float | None
) -> tuple[Value, Value]:
    wide = widened(a)
    last = _last(a, normalized_shape)
    count = math.prod(normalized_shape)
    if eps is None:
        eps = torch.finfo(dtypes.real_dtype(wide.dtype)).eps
    rstd = x.rsqrt(x.sum(wide * wide, last, keepdim=True) / count + eps)
    return _scaled(wide * rstd, weight, None).to(a.dtype), rstd


@lower(aten._fused_rms_norm_backward)
def rms_norm_backward(
    x: Builder,
    grad: Value,
    a: Value,
    normalized_shape: list[int],
    rstd: Value,
    weight: Value | None,
    output_mask: list[bool],
) -> tuple[Value | None, ...]:
    wide, wide_grad = widened(a), widened(grad)
    scale = rstd.to(wide.dtype)
    normalized = wide * scale
    last = _last(a, normalized_shape)
    rows = list(range(a.rank - len(last)))
    inner = _scaled(wide_grad, weight, None)
    along = x.sum(inner * normalized, last, keepdim=True) / math.prod(normalized_shape)
    of_input = ((inner - normalized * along) * scale).to(a.dtype)
    of_weight = _sum_rows(x, wide_grad * normalized, rows, weight)
    return of_input if output_mask[0] else None, of_weight if output_mask[1] else None


# Group normalization


@lower(aten.native_group_norm)
def group_norm(
    x: Builder,
    a: Value,
    weight: Value | None,
    bias: Value | None,
    n: int,
    c: int,
    pixels: int,
    groups: int,
    eps: Operand,
) -> tuple[Value, Value, Value]:
    grouped = x.reshape(widened(a), [n, groups, (c // groups) * pixels])
    mean, variance = _moments(x, grouped, [2])
    rstd = rstd_of(x, variance, eps)
    channels = x.reshape((grouped - mean) * rstd, [n, c, pixels])
    rows = [v if v is None else x.reshape(v, [1, c, 1]) for v in (weight, bias)]
    result = x.reshape(_scaled(channels, rows[0], rows[1]), a.shape).to(a.dtype)
    dtype = statistics_dtype(a, weight, bias)
    mean, rstd = (x.reshape(v, [n, groups]).to(dtype) for v in (mean, rstd))
    return result, mean, rstd


@lower(aten.native_group_norm_backward)
def group_norm_backward(
    x: Builder,
    grad: Value,
    a: Value,
    mean: Value,
    rstd: Value,
    weight: Value | None,
    n: int,
    c: int,
    pixels: int,
    groups: int,
    output_mask: list[bool],
) -> tuple[Value | None, ...]:
    wide = dtypes.compute_dtype(a.dtype)
    by_group, by_channel = [n, groups, (c // groups) * pixels], [n, c, pixels]
    scale = x.reshape(rstd.to(wide), [n, groups, 1])
    shift = x.reshape(mean.to(wide), [n, groups, 1])
    normalized = (x.reshape(a.to(wide), by_group) - shift) * scale
    channels = x.reshape(grad.to(wide), by_channel)
    row = None if weight is None else x.reshape(weight, [1, c, 1])
    inner = x.reshape(_scaled(channels, row, None), by_group)
    of_input = x.reshape(_projected_out(x, inner, normalized, scale, [2]), a.shape)
    row_dtype = a.dtype if weight is None else weight.dtype
    results = (
        of_input.to(a.dtype),
        x.sum(channels * x.reshape(normalized, by_channel), [0, 2]).to(row_dtype),
        x.sum(channels, [0, 2]).to(row_dtype),
    )
    return tuple(r if wanted else None for r, wanted in zip(results, output_mask, strict=True))


# Weight normalization


@lower(aten._weight_norm_interface_backward)
def weight_norm_backward(
    x: Builder, grad: Value, v: Value, g: Value, norms: Value, dim: int
) -> tuple[Value, Value]:
    wide_grad, wide_v, norm = widened(grad), widened(v), widened(norms)
    others = [d for d in range(v.rank) if d != x.dimension(v, dim)]
    along = x.sum(wide_grad * wide_v, others, keepdim=True)
    norm = x.reshape(norm, along.shape)
    scale = x.reshape(widened(g), along.shape) / norm
    of_v = scale * (wide_grad - wide_v * (along / (norm * norm)))
    return of_v.to(v.dtype), x.reshape(along / norm, g.shape).to(g.dtype)
