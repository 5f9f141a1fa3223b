"""Factors by Gaussian elimination; solutions, inverses and determinants with them.

Elimination goes column by column in a loop of the program, over a batch of matrices in one
leading dimension.
"""

from __future__ import annotations

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.matrices import (
    adjoint_of,
    broadcast_batches,
    flat_batch,
    identity,
    inverse_order,
    position,
    refuse_failures,
    take_rows,
    transposed,
    triangle,
)
from torch_trainium.lowering.ops.triangular import solve_triangular
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


def _lu(x: Builder, a: Value, pivot: bool) -> tuple[Value, Value, Value]:
    """Both factors in one, the row exchanged at each step (from 1), and the first zero pivot."""
    batch, m, n = a.shape
    steps = min(m, n)
    rows, columns = position(x, [1, m, 1], 1), position(x, [1, 1, n], 2)
    nothing = x.constant(0, a.dtype)

    def step(k: Value, lu: Value, pivots: Value, info: Value) -> list[Value]:
        zero = x.constant(0, torch.int32)
        at = _pivot_row(x, lu, k) if pivot else x.broadcast(k, [batch, 1, 1])
        upper = x.dynamic_slice(lu, [zero, k, zero], [batch, 1, n])
        pivot_row = x.sum(x.select(rows.eq(at), lu, nothing), [1], keepdim=True)
        lu = x.select(rows.eq(k), pivot_row, x.select(rows.eq(at), upper, lu))
        divisor = x.sum(x.select(columns.eq(k), pivot_row, nothing), [2], keepdim=True)
        is_zero = divisor.eq(0)
        column = x.dynamic_slice(lu, [zero, zero, k], [batch, m, 1])
        factor = column / x.select(is_zero, x.constant(1, a.dtype), divisor)
        reduced = x.select(columns > k, lu - factor * pivot_row, lu)
        reduced = x.select(columns.eq(k), factor, reduced)
        lu = x.select(rows > k, reduced, lu)
        info = x.select(x.reshape(is_zero, [batch]) & info.eq(0), k + 1, info)
        pivots = x.dynamic_update_slice(pivots, x.reshape(at + 1, [batch, 1]), [zero, k])
        return [k + 1, lu, pivots, info]

    start = [
        x.constant(0, torch.int32),
        a,
        x.constant(0, torch.int32, [batch, steps]),
        x.constant(0, torch.int32, [batch]),
    ]
    _, lu, pivots, info = x.while_(start, lambda k, *state: k < steps, step)
    return lu, pivots, info


def _pivot_row(x: Builder, lu: Value, k: Value) -> Value:
    """The row from k on with the largest element in column k; LAPACK's size of complex ones."""
    batch, m, _ = lu.shape
    zero = x.constant(0, torch.int32)
    column = x.dynamic_slice(lu, [zero, zero, k], [batch, m, 1])
    size = x.abs(x.real(column))
    if lu.dtype.is_complex:
        size = size + x.abs(x.imag(column))
    below = position(x, [1, m, 1], 1) >= k
    _, at = x.argmax(x.select(below, size, x.constant(-1, size.dtype)), 1, keepdim=True)
    return at.to(torch.int32)


def lu_factor(x: Builder, a: Value, pivot: bool = True) -> tuple[Value, Value, Value]:
    """The same for any batch, and for matrices without elements."""
    batch, steps = a.shape[:-2], min(a.shape[-2:])
    if not a.size:
        pivots = x.constant(0, torch.int32, [*batch, steps])
        return a, pivots, x.constant(0, torch.int32, batch)
    lu, pivots, info = _lu(x, flat_batch(x, a), pivot)
    return x.reshape(lu, a.shape), x.reshape(pivots, [*batch, steps]), x.reshape(info, batch)


def _permutation(x: Builder, pivots: Value, m: int) -> Value:
    """Which row of the matrix each row of its factors is, for a batch of pivots."""
    batch, steps = pivots.shape
    places = position(x, [batch, m], 1)
    if not pivots.size:
        return places

    def step(k: Value, permutation: Value) -> list[Value]:
        zero = x.constant(0, torch.int32)
        at = x.dynamic_slice(pivots, [zero, k], [batch, 1]) - 1
        here = x.dynamic_slice(permutation, [zero, k], [batch, 1])
        there = x.sum(x.select(places.eq(at), permutation, zero), [1], keepdim=True)
        moved = x.select(places.eq(at), here, permutation)
        return [k + 1, x.select(places.eq(k), there, moved)]

    start = [x.constant(0, torch.int32), places]
    return x.while_(start, lambda k, permutation: k < steps, step)[1]


def lu_solve(x: Builder, lu: Value, pivots: Value, b: Value, *, adjoint: bool) -> Value:
    """The solution of `a @ result = b`, or of its adjoint's, where `lu` factors a."""
    lu, b = broadcast_batches(x, lu, b)
    if not b.size:
        return b
    pivots = x.broadcast(pivots, lu.shape[:-1])
    factors, rows = flat_batch(x, lu), flat_batch(x, b)
    permutation = _permutation(x, flat_batch(x, pivots, 1), lu.shape[-1])
    if adjoint:
        rows = solve_triangular(x, factors, rows, upper=True, transpose="ADJOINT")
        rows = solve_triangular(x, factors, rows, upper=False, unit=True, transpose="ADJOINT")
        rows = take_rows(x, rows, inverse_order(x, permutation))
    else:
        rows = take_rows(x, rows, permutation)
        rows = solve_triangular(x, factors, rows, upper=False, unit=True)
        rows = solve_triangular(x, factors, rows, upper=True)
    return x.reshape(rows, b.shape)


@lower(aten.linalg_lu_factor_ex)
def lu_factor_ex(
    x: Builder, a: Value, *, pivot: bool, check_errors: bool
) -> tuple[Value, Value, Value]:
    lu, pivots, info = lu_factor(x, a, pivot)
    refuse_failures(x, info, check_errors, "torch.linalg.lu_factor_ex: U has a zero pivot")
    return lu, pivots, info


@lower(aten.lu_unpack)
def lu_unpack(
    x: Builder, lu: Value, pivots: Value, unpack_data: bool, unpack_pivots: bool
) -> tuple[Value, Value, Value]:
    m, n = lu.shape[-2:]
    steps = min(m, n)
    batch = lu.shape[:-2]
    empty = x.constant(0, lu.dtype, [0])
    left, right, rows = empty, empty, empty
    if unpack_data:
        left = x.slice_in_dim(lu, -1, 0, steps)
        left = triangle(x, left, upper=False, unit=True)
        right = triangle(x, x.slice_in_dim(lu, -2, 0, steps), upper=True)
    if unpack_pivots:
        permutation = _permutation(x, flat_batch(x, pivots, 1), m)
        shape = [permutation.shape[0], m, m]
        chosen = position(x, shape, 1).eq(x.unsqueeze(permutation, 1))
        rows = x.reshape(chosen.to(lu.dtype), [*batch, m, m])
    return rows, left, right


@lower(aten.linalg_lu)
def linalg_lu(x: Builder, a: Value, *, pivot: bool) -> tuple[Value, Value, Value]:
    lu, pivots, _ = lu_factor(x, a, pivot)
    return lu_unpack(x, lu, pivots, True, pivot)


@lower(aten.linalg_lu_solve)
def linalg_lu_solve(
    x: Builder, lu: Value, pivots: Value, b: Value, *, left: bool, adjoint: bool
) -> Value:
    if left:
        return lu_solve(x, lu, pivots, b, adjoint=adjoint)
    return adjoint_of(x, lu_solve(x, lu, pivots, adjoint_of(x, b), adjoint=not adjoint))


# Solutions, inverses and determinants


@lower(aten._linalg_solve_ex)
def solve_ex(
    x: Builder, a: Value, b: Value, *, left: bool, check_errors: bool
) -> tuple[Value, ...]:
    is_vector = b.rank == 1 or (a.rank - 1 == b.rank and b.shape == a.shape[:-1])
    columns = x.unsqueeze(b, b.rank) if is_vector else b
    lu, pivots, info = lu_factor(x, a)
    if left or is_vector:
        result = lu_solve(x, lu, pivots, columns, adjoint=False)
    else:
        result = adjoint_of(x, lu_solve(x, lu, pivots, adjoint_of(x, columns), adjoint=True))
    if is_vector:
        result = x.squeeze(result, [-1])
    refuse_failures(x, info, check_errors, "torch.linalg.solve: the matrix is singular")
    return result, lu, pivots, info


@lower(aten.linalg_inv_ex)
def inv_ex(x: Builder, a: Value, *, check_errors: bool) -> tuple[Value, Value]:
    lu, pivots, info = lu_factor(x, a)
    unit = identity(x, a.dtype, a.shape[:-2], a.shape[-1])
    result = lu_solve(x, lu, pivots, unit, adjoint=False)
    refuse_failures(x, info, check_errors, "torch.linalg.inv: the matrix is singular")
    return result, info


def _factored(x: Builder, a: Value) -> tuple[Value, Value, Value]:
    """The factors PyTorch keeps with a determinant: the transpose's where LAPACK sees that."""
    return lu_factor(x, transposed(x, a) if a.is_contiguous and not a.dtype.is_complex else a)


def _diagonal(x: Builder, a: Value, filler: int) -> Value:
    """The diagonal of square matrices, spread over a row filled up with a number."""
    row, column = (position(x, a.shape, d) for d in (a.rank - 2, a.rank - 1))
    return x.select(row.eq(column), a, x.constant(filler, a.dtype))


def _parity(x: Builder, pivots: Value, dtype: torch.dtype) -> Value:
    """The sign of the permutation."""
    moved = pivots.ne(position(x, pivots.shape, pivots.rank - 1) + 1).to(torch.int32)
    odd = x.remainder(x.sum(moved, [pivots.rank - 1]), 2)
    return (1 - odd * 2).to(dtype)


@lower(aten._linalg_det)
def det(x: Builder, a: Value) -> tuple[Value, Value, Value]:
    lu, pivots, _ = _factored(x, a)
    last = [a.rank - 2, a.rank - 1]
    product = x.product(_diagonal(x, lu, 1), last)
    return product * _parity(x, pivots, a.dtype), lu, pivots


@lower(aten._linalg_slogdet)
def slogdet(x: Builder, a: Value) -> tuple[Value, Value, Value, Value]:
    lu, pivots, _ = _factored(x, a)
    last = [a.rank - 2, a.rank - 1]
    diagonal = _diagonal(x, lu, 1)
    size = x.abs(diagonal)
    sign = x.sign(diagonal)
    logarithm = x.sum(x.log(size), last)
    return x.product(sign, last) * _parity(x, pivots, a.dtype), logarithm, lu, pivots
