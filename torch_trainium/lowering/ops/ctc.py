"""Connectionist temporal classification (Graves et al., 2006) and its gradient.

The states of a sequence are its labels with a blank before, between and after them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.reductions import Combine
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


@dataclass(frozen=True, eq=False)
class _Alignment:
    """What both directions need: N sequences, T times, S states, C classes.

    Attributes:
        labels: int32 [N, S].
        skips: bool [N, S], whether a state may follow the one two before it.
        emission: [N, T, S], the log-probability of each state's label.
        times: int32 [N, 1], how long each input is.
        states: int32 [N, 1], how many states each has.

    """

    labels: Value
    skips: Value
    emission: Value
    times: Value
    states: Value


@lower(aten._ctc_loss)
def ctc_loss(
    x: Builder,
    log_probs: Value,
    targets: Value,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    blank: int,
    zero_infinity: bool,
) -> tuple[Value, Value]:
    wide = log_probs.to(dtypes.compute_dtype(log_probs.dtype))
    longest = max(target_lengths, default=0)
    into, out = (_lengths(x, numbers) for numbers in (input_lengths, target_lengths))
    to = _align(x, wide, targets, into, out, longest, blank)
    alpha = _forward(x, to)
    state = x.iota(torch.int32, to.labels.shape, 1)
    time = x.iota(torch.int32, [1, alpha.shape[1], 1], 1)
    at_the_end = x.unsqueeze(state >= to.states - 2, 1) & time.eq(x.unsqueeze(to.times - 1, 2))
    at_the_end = at_the_end & x.unsqueeze(state < to.states, 1)
    loss = -_log_sum(x, x.select(at_the_end, alpha, -math.inf), [1, 2])
    nothing = x.squeeze(to.times.eq(0) & to.states.eq(1), [1])
    loss = x.select(nothing, 0, loss)
    return loss.to(log_probs.dtype), alpha.to(log_probs.dtype)


@lower(aten._ctc_loss_backward, aten._ctc_loss_backward.Tensor)
def ctc_loss_backward(
    x: Builder,
    grad: Value,
    log_probs: Value,
    targets: Value,
    input_lengths: Sequence[int] | Value,
    target_lengths: Sequence[int] | Value,
    loss: Value,
    alpha: Value,
    blank: int,
    zero_infinity: bool,
) -> Value:
    wide = log_probs.to(dtypes.compute_dtype(log_probs.dtype))
    into, out = (_lengths(x, numbers) for numbers in (input_lengths, target_lengths))
    to = _align(x, wide, targets, into, out, (alpha.shape[2] - 1) // 2, blank)
    state = x.unsqueeze(x.iota(torch.int32, to.labels.shape, 1), 1)
    time = x.iota(torch.int32, [1, alpha.shape[1], 1], 1)
    inside = (state < x.unsqueeze(to.states, 1)) & (time < x.unsqueeze(to.times, 2))
    through = x.select(inside, alpha.to(wide.dtype) + _backward(x, to), -math.inf)
    classes = x.iota(torch.int32, [1, 1, wide.shape[2]], 2)
    is_class = x.unsqueeze(to.labels, 2).eq(classes).to(wide.dtype)
    peak = x.max(through, [2], keepdim=True)
    peak = x.select(peak.eq(-math.inf), 0, peak)
    by_class = x.log(x.matmul(x.exp(through - peak), is_class)) + peak
    loss = x.reshape(loss.to(wide.dtype), [-1, 1, 1])
    logs = x.transpose(wide, [1, 0, 2])
    each = x.exp(logs) - x.exp(by_class + loss - logs)
    each = each * x.reshape(grad.to(wide.dtype), [-1, 1, 1])
    if zero_infinity:
        each = x.select(loss.eq(math.inf), 0, each)
    each = x.select(time < x.unsqueeze(to.times, 2), each, 0)
    return x.transpose(each, [1, 0, 2]).to(log_probs.dtype)


def _lengths(x: Builder, numbers: Sequence[int] | Value) -> Value:
    return numbers.to(torch.int32) if isinstance(numbers, Value) else x.vector(numbers, torch.int32)


def _align(
    x: Builder,
    log_probs: Value,
    targets: Value,
    input_lengths: Value,
    target_lengths: Value,
    longest: int,
    blank: int,
) -> _Alignment:
    times, sequences, _ = log_probs.shape
    rows = _rows(x, targets.to(torch.int32), target_lengths, longest)
    between = x.constant(blank, torch.int32, rows.shape)
    pairs = x.reshape(x.stack([between, rows], dim=2), [sequences, 2 * longest])
    labels = x.concatenate([pairs, x.constant(blank, torch.int32, [sequences, 1])], 1)
    two_before = x.pad(labels, blank, [0, 2], [0, -2])
    shape = [sequences, times, labels.shape[1]]
    emission = x.take_elements(
        log_probs,
        [x.iota(torch.int32, shape, 1), x.iota(torch.int32, shape, 0), x.unsqueeze(labels, 1)],
    )
    return _Alignment(
        labels,
        labels.ne(blank) & labels.ne(two_before),
        emission,
        x.unsqueeze(input_lengths, 1),
        x.unsqueeze(target_lengths * 2 + 1, 1),
    )


def _rows(x: Builder, targets: Value, lengths: Value, longest: int) -> Value:
    """Targets as [N, longest], also where they come one after another."""
    if targets.rank == 2:
        return x.slice_in_dim(targets, 1, 0, longest)
    sequences = lengths.shape[0]
    square = [sequences, sequences]
    is_before = x.iota(torch.int32, square, 1) < x.iota(torch.int32, square, 0)
    starts = x.sum(x.select(is_before, x.unsqueeze(lengths, 0), 0), [1], keepdim=True)
    places = starts + x.iota(torch.int32, [sequences, longest], 1)
    # What lies beyond a target's own length is no state of it.
    return x.take(targets, x.minimum(places, max(targets.size - 1, 0)))


def _forward(x: Builder, to: _Alignment) -> Value:
    """alpha[n, t, s]: of all paths to state s at time t, that time included."""
    sequences, times, states = to.emission.shape
    state = x.iota(torch.int32, [sequences, states], 1)
    never = x.constant(-math.inf, to.emission.dtype)
    first = x.select((state < 2) & (state < to.states), x.constant(0, never.dtype), never)

    def step(time: Value, column: Value, alpha: Value) -> list[Value]:
        one = x.pad(column, never, [0, 1], [0, -1])
        two = x.select(to.skips, x.pad(column, never, [0, 2], [0, -2]), never)
        through = _log_sum(x, x.stack([column, one, two]), [0])
        column = x.select(time.eq(0), first, through) + _at(x, to.emission, time)
        return [time + 1, column, _placed(x, alpha, column, time)]

    return _over_time(x, to, 0, lambda time: time < times, step)


def _backward(x: Builder, to: _Alignment) -> Value:
    """beta[n, t, s]: of all paths from state s at time t to the end, that time included."""
    sequences, times, states = to.emission.shape
    state = x.iota(torch.int32, [sequences, states], 1)
    is_last = (state >= to.states - 2) & (state < to.states)
    never = x.constant(-math.inf, to.emission.dtype)
    skips = x.pad(to.skips, False, [0, -2], [0, 2])

    def step(time: Value, column: Value, beta: Value) -> list[Value]:
        one = x.pad(column, never, [0, -1], [0, 1])
        two = x.select(skips, x.pad(column, never, [0, -2], [0, 2]), never)
        through = _log_sum(x, x.stack([column, one, two]), [0])
        through = x.select(is_last & to.times.eq(time + 1), 0, through)
        column = through + _at(x, to.emission, time)
        return [time - 1, column, _placed(x, beta, column, time)]

    return _over_time(x, to, times - 1, lambda time: time >= 0, step)


def _over_time(x: Builder, to: _Alignment, start: int, goes_on: Combine, step: Combine) -> Value:
    """What a recurrence gives at all times: it starts from paths that have no probability."""
    sequences, _, states = to.emission.shape
    state = [
        x.constant(start, torch.int32),
        x.constant(-math.inf, to.emission.dtype, [sequences, states]),
        x.constant(-math.inf, to.emission.dtype, to.emission.shape),
    ]
    return x.while_(state, lambda time, *_: goes_on(time), step)[2]


def _at(x: Builder, emission: Value, time: Value) -> Value:
    sequences, _, states = emission.shape
    zero = x.constant(0, torch.int32)
    return x.squeeze(x.dynamic_slice(emission, [zero, time, zero], [sequences, 1, states]), [1])


def _placed(x: Builder, all_times: Value, column: Value, time: Value) -> Value:
    zero = x.constant(0, torch.int32)
    return x.dynamic_update_slice(all_times, x.unsqueeze(column, 1), [zero, time, zero])


def _log_sum(x: Builder, a: Value, dims: Sequence[int]) -> Value:
    peak = x.max(a, dims, keepdim=True)
    peak = x.select(peak.eq(-math.inf), 0, peak)
    total = x.log(x.sum(x.exp(a - peak), dims))
    return total + x.squeeze(peak, dims)
