"""Factors of symmetric and Hermitian matrices that need not be definite, and solutions by them.

Blocks of one or two columns are eliminated with the pivots of Bunch and Kaufman (1977), as
LAPACK's sytf2 and hetf2 choose them; matrices of a batch go on at their own pace.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.matrices import (
    adjoint_of,
    broadcast_batches,
    column_at,
    flat_batch,
    mirrored,
    position,
    refuse_failures,
    row_at,
    transposed,
    triangle,
)
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten

# Bounds the growth of elements the same for blocks of one and two columns.
ALPHA = (1 + math.sqrt(17)) / 8


def _rows_exchanged(x: Builder, a: Value, one: Value, other: Value) -> Value:
    rows = position(x, [1, a.shape[1], 1], 1)
    exchanged = x.select(rows.eq(other), row_at(x, a, one), a)
    return x.select(rows.eq(one), row_at(x, a, other), exchanged)


@dataclass(frozen=True, eq=False)
class _Pivot:
    """What is eliminated next in each matrix; all [batch, 1, 1].

    Attributes:
        at: the row that moves up.
        is_pair: whether it is eliminated together with the next.
        is_nothing: whether the column is zero.

    """

    at: Value
    is_pair: Value
    is_nothing: Value


def _choose(x: Builder, a: Value, k: Value) -> _Pivot:
    rows = position(x, [1, a.shape[1], 1], 1)

    def size(v: Value) -> Value:
        return x.abs(x.real(v)) + x.abs(x.imag(v)) if v.dtype.is_complex else x.abs(v)

    column = column_at(x, a, k)
    own = size(row_at(x, column, k))
    lower_ = x.select(rows > k, size(column), x.constant(0, own.dtype))
    largest, at = x.argmax(lower_, 1, keepdim=True)
    at = x.select(largest.eq(0), k, at.to(torch.int32))
    others = column_at(x, a, at)
    is_other = (rows >= k) & rows.ne(at)
    largest_there = x.max(
        x.select(is_other, size(others), x.constant(0, own.dtype)), [1], keepdim=True
    )
    is_nothing = x.maximum(own, largest).eq(0)
    stays = is_nothing | (own >= largest * ALPHA)
    stays = stays | (own >= (largest / largest_there) * largest * ALPHA)
    is_pair = ~(stays | (size(row_at(x, others, at)) >= largest_there * ALPHA))
    return _Pivot(x.select(stays, k, at), is_pair, is_nothing)


def _ldl(x: Builder, a: Value) -> tuple[Value, Value, Value]:
    """Factors, pivots and the first zero column of a batch of whole matrices."""
    batch, n, _ = a.shape
    rows, columns = position(x, [1, n, 1], 1), position(x, [1, 1, n], 2)
    nothing, one = x.constant(0, a.dtype), x.constant(1, a.dtype)

    def step(k: Value, a: Value, factors: Value, pivots: Value, info: Value) -> list[Value]:
        pivot = _choose(x, a, k)
        last = k + pivot.is_pair.to(torch.int32)
        a = _rows_exchanged(x, a, last, pivot.at)
        a = transposed(x, _rows_exchanged(x, transposed(x, a), last, pivot.at))
        first_column, second_column = column_at(x, a, k), column_at(x, a, k + 1)
        first_row, second_row = row_at(x, a, k), row_at(x, a, k + 1)
        own, beside = row_at(x, first_column, k), row_at(x, second_column, k)
        below, next_ = row_at(x, first_column, k + 1), row_at(x, second_column, k + 1)
        # The block's inverse, scaled by what stands beside the diagonal.
        below, beside = (x.select(pivot.is_pair, v, one) for v in (below, beside))
        u, v = next_ / below, own / beside
        scale = u * v - one
        scale = x.select(pivot.is_pair, scale, one)
        single = first_column / x.select(own.eq(0), one, own)
        first = (u * first_column - second_column) / (beside * scale)
        second = (v * second_column - first_column) / (below * scale)
        first = x.select(rows > last, x.select(pivot.is_pair, first, single), first_column)
        second = x.select(rows > last, second, second_column)
        stored = x.select(columns.eq(k) & (rows >= k), first, factors)
        is_second = pivot.is_pair & columns.eq(k + 1) & (rows > k)
        reduced = first * first_row + x.select(pivot.is_pair, second * second_row, nothing)
        a = x.select((rows > last) & (columns > last), a - reduced, a)
        number = x.select(pivot.is_pair, -(pivot.at + 1), pivot.at + 1)
        place = position(x, [1, n, 1], 1)
        pivots = x.select((place >= k) & (place <= last), number, pivots)
        info = x.select(pivot.is_nothing & info.eq(0) & (k < n), k + 1, info)
        return [last + 1, a, x.select(is_second, second, stored), pivots, info]

    zero = x.constant(0, torch.int32, [batch, 1, 1])
    start = [
        zero,
        a,
        x.constant(0, a.dtype, a.shape),
        x.constant(0, torch.int32, [batch, n, 1]),
        zero,
    ]
    _, _, factors, pivots, info = x.while_(start, lambda k, *state: x.any(k < n), step)
    return factors, x.squeeze(pivots, [2]), x.reshape(info, [batch])


@lower(aten.linalg_ldl_factor_ex)
def ldl_factor_ex(
    x: Builder, a: Value, *, hermitian: bool, check_errors: bool
) -> tuple[Value, Value, Value]:
    *batch, n, _ = a.shape
    if not a.size:
        pivots = x.constant(0, torch.int32, [*batch, n])
        return a, pivots, x.constant(0, torch.int32, batch)
    stored = triangle(x, flat_batch(x, a), upper=False)
    factors, pivots, info = _ldl(x, mirrored(x, stored, conjugate=hermitian))
    info = x.reshape(info, batch)
    message = "torch.linalg.ldl_factor_ex: the matrix has a column of zeros to eliminate"
    refuse_failures(x, info, check_errors, message)
    return x.reshape(factors, a.shape), x.reshape(pivots, [*batch, n]), info


@lower(aten.linalg_ldl_solve)
def ldl_solve(x: Builder, factors: Value, pivots: Value, b: Value, *, hermitian: bool) -> Value:
    factors, b = broadcast_batches(x, factors, b)
    if not b.size:
        return b
    pivots = x.broadcast(pivots, factors.shape[:-1])
    blocks = _Blocks.of(x, flat_batch(x, factors), flat_batch(x, pivots, 1))
    solved = blocks.forward(x, flat_batch(x, b))
    solved = blocks.scaled(x, solved, hermitian)
    return x.reshape(blocks.backward(x, solved, hermitian), b.shape)


@dataclass(frozen=True, eq=False)
class _Blocks:
    """A batch of factors.

    Attributes:
        factors: [batch, n, n].
        exchanged: int32 [batch, n, 1], the row that each step exchanges with that in `moved`.
        moved: the same; a step that exchanges nothing has equal ones.
        is_first: bool [batch, n, 1], whether a row is the first of a pair.

    """

    factors: Value
    exchanged: Value
    moved: Value
    is_first: Value

    @classmethod
    def of(cls, x: Builder, factors: Value, pivots: Value) -> _Blocks:
        n = pivots.shape[1]
        pivots = x.unsqueeze(pivots, 2)
        places = position(x, pivots.shape, 1)

        def step(k: Value, is_first: Value) -> list[Value]:
            before = row_at(x, is_first.to(torch.int32), k - 1).ne(0)
            starts = (row_at(x, pivots, k) < 0) & ~before
            return [k + 1, is_first | (places.eq(k) & starts)]

        start = [x.constant(0, torch.int32), x.constant(False, torch.bool, pivots.shape)]
        is_first = x.while_(start, lambda k, is_first: k < n, step)[1]
        is_second = (pivots < 0) & ~is_first
        moved = x.select(is_first, places + 1, places)
        exchanged = x.select(is_second, places, x.abs(pivots) - 1)
        return cls(factors, exchanged, moved, is_first)

    def _step(self, x: Builder, k: Value) -> tuple[Value, Value, Value]:
        """The rows to exchange, and the column of elimination, zero down to the block's end."""
        _, n, _ = self.factors.shape
        is_first = row_at(x, self.is_first.to(torch.int32), k)
        is_left = position(x, [1, n, 1], 1) > k + is_first
        column = x.select(is_left, column_at(x, self.factors, k), x.constant(0, self.factors.dtype))
        return row_at(x, self.moved, k), row_at(x, self.exchanged, k), column

    def forward(self, x: Builder, b: Value) -> Value:
        """The unit triangle's solution."""
        n = b.shape[1]

        def step(k: Value, b: Value) -> list[Value]:
            one, other, column = self._step(x, k)
            b = _rows_exchanged(x, b, one, other)
            return [k + 1, b - column * row_at(x, b, k)]

        return x.while_([x.constant(0, torch.int32), b], lambda k, b: k < n, step)[1]

    def scaled(self, x: Builder, b: Value, hermitian: bool) -> Value:
        """The solution with the blocks on the diagonal."""
        _, n, _ = b.shape
        rows = position(x, self.factors.shape, 1)
        columns = position(x, self.factors.shape, 2)
        nothing, one = x.constant(0, b.dtype), x.constant(1, b.dtype)
        own = x.sum(x.select(rows.eq(columns), self.factors, nothing), [2], keepdim=True)
        below = x.sum(x.select(rows.eq(columns + 1), self.factors, nothing), [1])
        below = x.select(self.is_first, x.unsqueeze(below, 2), one)
        beside = x.conj(below) if hermitian else below
        after = x.pad(x.slice_in_dim(own, 1, 1, n), 1, [0, 0, 0], [0, 1, 0])
        b_after = x.pad(x.slice_in_dim(b, 1, 1, n), 0, [0, 0, 0], [0, 1, 0])
        u, v = after / below, own / beside
        scale = u * v - one
        first = (u * b / beside - b_after / below) / scale
        second = (v * b_after / below - b / beside) / scale
        second = x.pad(x.slice_in_dim(second, 1, 0, n - 1), 0, [0, 1, 0], [0, 0, 0])
        is_second = x.pad(x.slice_in_dim(self.is_first, 1, 0, n - 1), False, [0, 1, 0], [0, 0, 0])
        return x.select(self.is_first, first, x.select(is_second, second, b / own))

    def backward(self, x: Builder, b: Value, hermitian: bool) -> Value:
        """The solution of the unit triangle's transpose, or adjoint."""
        n = b.shape[1]

        def step(k: Value, b: Value) -> list[Value]:
            one, other, column = self._step(x, k)
            row = adjoint_of(x, column) if hermitian else transposed(x, column)
            is_own = position(x, [1, n, 1], 1).eq(k)
            b = x.select(is_own, b - x.dot(row, b), b)
            return [k - 1, _rows_exchanged(x, b, one, other)]

        start = [x.constant(n - 1, torch.int32), b]
        return x.while_(start, lambda k, b: k >= 0, step)[1]
