"""The pieces of batch normalization over several devices, which `SyncBatchNorm` is made of."""

from __future__ import annotations

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.ops.normalization import (
    all_but_channels,
    batch_statistics,
    moved_statistic,
    normalized_channels,
    per_channel,
    rstd_of,
    widened,
)
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Operand, Value

aten = torch.ops.aten


@lower(aten.batch_norm_stats)
def batch_norm_stats(x: Builder, a: Value, eps: Operand) -> tuple[Value, Value]:
    mean, variance = batch_statistics(x, a)
    return mean, rstd_of(x, variance, eps)


@lower(aten.batch_norm_elemt)
def batch_norm_elemt(
    x: Builder,
    a: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    rstd: Value,
    eps: Operand,
) -> Value:
    return normalized_channels(x, a, weight, bias, mean, rstd)


@lower(aten.batch_norm_gather_stats_with_counts)
def batch_norm_gather_stats_with_counts(
    x: Builder,
    a: Value,
    mean: Value,
    rstd: Value,
    running_mean: Value | None,
    running_var: Value | None,
    momentum: Operand,
    eps: Operand,
    counts: Value,
) -> tuple[Value, ...]:
    """The last results are what the running statistics become, where there are such."""
    means, rstds = widened(mean), widened(rstd)
    share = x.reshape(counts.to(means.dtype), [means.shape[0], 1])
    total = x.sum(share)
    together = x.sum(means * share, [0]) / total
    distance = means - together
    variances = 1 / (rstds * rstds) - x.number(eps, means.dtype)
    squares = x.sum((variances + distance * distance) * share, [0])
    results = [together, rstd_of(x, squares / total, eps)]
    if running_mean is not None:
        results.append(moved_statistic(x, running_mean, together, momentum))
    if running_var is not None:
        results.append(moved_statistic(x, running_var, squares / (total - 1), momentum))
    return tuple(results)


@lower(aten.batch_norm_backward_reduce)
def batch_norm_backward_reduce(
    x: Builder,
    grad: Value,
    a: Value,
    mean: Value,
    rstd: Value,
    weight: Value | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Value | None, ...]:
    wide_grad, wide = widened(grad), widened(a)
    rows = all_but_channels(a)
    centered = wide - per_channel(x, mean.to(wide.dtype), a.rank)
    total = x.sum(wide_grad, rows)
    along = x.sum(wide_grad * centered, rows)
    dtype = weight.dtype if weight is not None else a.dtype
    return (
        total if input_g else None,
        along if input_g else None,
        (along * rstd.to(along.dtype)).to(dtype) if weight_g else None,
        total.to(dtype) if bias_g else None,
    )


@lower(aten.batch_norm_backward_elemt)
def batch_norm_backward_elemt(
    x: Builder,
    grad: Value,
    a: Value,
    mean: Value,
    rstd: Value,
    weight: Value | None,
    sum_dy: Value,
    sum_dy_xmu: Value,
    count: Value,
) -> Value:
    wide = widened(a)
    samples = x.sum(count.to(wide.dtype))
    shift, scale, total, along = (
        per_channel(x, row.to(wide.dtype), a.rank) for row in (mean, rstd, sum_dy, sum_dy_xmu)
    )
    normalized = (wide - shift) * scale
    projected = widened(grad) - total / samples - normalized * (scale * along / samples)
    outer = scale
    if weight is not None:
        outer = outer * per_channel(x, weight.to(wide.dtype), a.rank)
    return (projected * outer).to(a.dtype)
