"""Jacobi's method: rotations of disjoint pairs of rows, all pairs in a round robin.

A sweep over n rows takes n - 1 turns. In each, row i meets row i + n/2, then all but the first row
move on by one seat (Brent and Luk, 1985), so that after a sweep every row is where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.values import Value

# Convergence is quadratic: 6 to 10 sweeps do, more where rows are many or graded.
MAX_SWEEPS = 40


def with_even_rows(x: Builder, a: Value) -> Value:
    """A batch of matrices with a row of zeros more where their number is odd: it never turns."""
    odd = a.shape[1] % 2
    return x.pad(a, 0, [0, 0, 0], [0, odd, 0]) if odd else a


def halves(x: Builder, a: Value) -> tuple[Value, Value]:
    """The rows that meet: each of the first with that in the same place of the second."""
    half = a.shape[1] // 2
    return x.slice_in_dim(a, 1, 0, half), x.slice_in_dim(a, 1, half, 2 * half)


def turned(x: Builder, rows: Value, alpha: Value, beta: Value, gamma: Value) -> Value:
    """The adjoint of a unitary matrix with `rows`, which then take their next seats.

    In each pair it diagonalizes [[alpha, gamma], [conj(gamma), beta]] from both sides; these are
    [batch, n/2, 1], alpha and beta real. The smaller of both angles is taken.
    """
    size = x.abs(gamma)
    is_done = size.eq(0)
    divisor = x.select(is_done, x.constant(1, size.dtype), size)
    phase = x.select(is_done, x.constant(1, rows.dtype), gamma / divisor.to(rows.dtype))
    # The tangent from its double's cotangent, Golub and Van Loan, Matrix Computations, 8.5.2.
    ratio = (beta - alpha) / (divisor * 2)
    tangent = 1 / (x.abs(ratio) + x.sqrt(ratio * ratio + 1))
    tangent = x.select(is_done, x.constant(0, size.dtype), x.select(ratio < 0, -tangent, tangent))
    cosine = 1 / x.sqrt(tangent * tangent + 1)
    # Rutishauser's form: a small angle makes a small error.
    sine, half_angle = (
        number.to(rows.dtype) for number in (cosine * tangent, cosine * tangent / (cosine + 1))
    )
    first, second = halves(x, rows)
    second = second * phase
    first_turned = first - sine * (second + half_angle * first)
    return _next_seats(x, first_turned, second + sine * (first - half_angle * second))


def _next_seats(x: Builder, first: Value, second: Value) -> Value:
    half = first.shape[1]
    if half == 1:
        return x.concatenate([first, second], 1)
    seats = [
        x.slice_in_dim(first, 1, 0, 1),
        x.slice_in_dim(second, 1, 0, 1),
        x.slice_in_dim(first, 1, 1, half - 1),
        x.slice_in_dim(second, 1, 1, half),
        x.slice_in_dim(first, 1, half - 1, half),
    ]
    return x.concatenate([seat for seat in seats if seat.shape[1]], 1)


def sweeps(
    x: Builder, state: Sequence[Value], count: int, turn: Callable[..., Sequence[Value]]
) -> list[Value]:
    """Sweeps over `count` rows until none of a sweep's turns found anything to do.

    `turn` takes the state, and returns what it becomes and whether there was anything: a zero-dim
    boolean.
    """
    zero, false = x.constant(0, torch.int32), x.constant(False, torch.bool)

    def next_turn(number: Value, busy: Value, *values: Value) -> list[Value]:
        *turned_values, found = turn(*values)
        return [number + 1, busy | found, *turned_values]

    def sweep(number: Value, busy: Value, *values: Value) -> list[Value]:
        start = [zero, false, *values]
        return [number + 1, *x.while_(start, lambda i, *_: i < count - 1, next_turn)[1:]]

    start = [zero, x.constant(True, torch.bool), *state]
    return x.while_(start, lambda number, busy, *_: (number < MAX_SWEEPS) & busy, sweep)[2:]
