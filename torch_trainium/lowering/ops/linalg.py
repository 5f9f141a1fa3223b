"""Decompositions of matrices, inverses and solutions.

Decompositions go column by column in a loop of the program, over a batch of matrices in one
leading dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from torch_trainium.errors import LoweringError
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.elementwise import broadcast_shape
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten

LinAlgError: type[Exception] = torch.linalg.LinAlgError  # type: ignore[attr-defined]


# Batches and transposes


def flat_batch(x: Builder, a: Value, core: int = 2) -> Value:
    """All dimensions before the last `core` as one."""
    lengths = a.shape[a.rank - core :]
    return x.reshape(a, [math.prod(a.shape[: a.rank - core]), *lengths])


def transposed(x: Builder, a: Value) -> Value:
    """The last two dimensions exchanged."""
    return x.transpose(a, [*range(a.rank - 2), a.rank - 1, a.rank - 2])


def adjoint_of(x: Builder, a: Value) -> Value:
    """The same, conjugated."""
    return x.conj(transposed(x, a))


def position(x: Builder, shape: Sequence[int], dim: int) -> Value:
    """Each element's number along a dimension."""
    return x.iota(torch.int32, shape, dim)


def identity(x: Builder, dtype: torch.dtype, batch: Sequence[int], n: int) -> Value:
    """Identity matrices."""
    shape = [*batch, n, n]
    rank = len(shape)
    return position(x, shape, rank - 2).eq(position(x, shape, rank - 1)).to(dtype)


def triangle(x: Builder, a: Value, *, upper: bool, unit: bool = False) -> Value:
    """The triangle of each matrix, with the diagonal or with ones on it."""
    row, column = (position(x, a.shape, d) for d in (a.rank - 2, a.rank - 1))
    zero = x.constant(0, a.dtype)
    kept = x.select(row <= column if upper else row >= column, a, zero)
    return x.select(row.eq(column), x.constant(1, a.dtype), kept) if unit else kept


def broadcast_batches(x: Builder, a: Value, b: Value) -> list[Value]:
    """Two stacks of matrices with their batch dimensions broadcast."""
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    return [x.broadcast(v, [*batch, *v.shape[-2:]]) for v in (a, b)]


def _refuse_failures(x: Builder, info: Value, wanted: bool, message: str) -> None:
    if wanted:
        x.check(info.ne(0), LinAlgError, message)


# Triangular systems


def solve_triangular(
    x: Builder,
    a: Value,
    b: Value,
    *,
    upper: bool,
    left: bool = True,
    unit: bool = False,
    transpose: str = "NO_TRANSPOSE",
) -> Value:
    """The solution of `op(a) @ result = b`, or of `result @ op(a) = b`."""
    if not b.size or not a.size:
        return x.constant(0, b.dtype, b.shape)
    operation = x.hlo.TriangularSolveOp(
        a.ir, b.ir, left, not upper, unit, x.hlo.TransposeAttr.get(transpose)
    )
    return x.emit(operation, b.dtype)


@lower(aten.linalg_solve_triangular)
def linalg_solve_triangular(
    x: Builder, a: Value, b: Value, *, upper: bool, left: bool, unitriangular: bool
) -> Value:
    a, b = broadcast_batches(x, a, b)
    return solve_triangular(x, a, b, upper=upper, left=left, unit=unitriangular)


@lower(aten.triangular_solve)
def triangular_solve(
    x: Builder, b: Value, a: Value, upper: bool, transpose: bool, unitriangular: bool
) -> tuple[Value, Value]:
    a, b = broadcast_batches(x, a, b)
    way = "TRANSPOSE" if transpose else "NO_TRANSPOSE"
    return solve_triangular(x, a, b, upper=upper, unit=unitriangular, transpose=way), a


# Cholesky


def _cholesky(x: Builder, a: Value) -> tuple[Value, Value]:
    """Lower factors of a batch, and of each the first order whose minor is not positive."""
    batch, n, _ = a.shape
    rows = position(x, [1, n, 1], 1)

    def step(k: Value, factor: Value, info: Value) -> list[Value]:
        zero = x.constant(0, torch.int32)
        row = x.dynamic_slice(factor, [zero, k, zero], [batch, 1, n])
        before = position(x, [1, 1, n], 2) < k
        row = x.select(before, row, x.constant(0, a.dtype))
        known = x.select(before, factor, x.constant(0, a.dtype))
        column = x.dynamic_slice(a, [zero, zero, k], [batch, n, 1])
        column = column - x.dot(known, adjoint_of(x, row))
        pivot = x.real(x.sum(x.select(rows.eq(k), column, x.constant(0, a.dtype)), [1]))
        failed = ~(pivot > 0)
        info = x.select(failed & info.eq(0), k + 1, info)
        root = x.unsqueeze(x.sqrt(pivot), 2)
        scaled = column / root.to(a.dtype)
        new = x.select(rows.eq(k), x.broadcast(root.to(a.dtype), column.shape), scaled)
        new = x.select(rows < k, x.constant(0, a.dtype), new)
        return [k + 1, x.dynamic_update_slice(factor, new, [zero, zero, k]), info]

    start = [
        x.constant(0, torch.int32),
        x.constant(0, a.dtype, a.shape),
        x.constant(0, torch.int32, [batch, 1]),
    ]
    _, factor, info = x.while_(start, lambda k, factor, info: k < n, step)
    return factor, x.reshape(info, [batch])


@lower(aten.linalg_cholesky_ex)
def cholesky_ex(x: Builder, a: Value, *, upper: bool, check_errors: bool) -> tuple[Value, Value]:
    batch = a.shape[:-2]
    if not a.size:
        return a, x.constant(0, torch.int32, batch)
    source = adjoint_of(x, a) if upper else a
    factor, info = _cholesky(x, flat_batch(x, source))
    factor, info = x.reshape(factor, a.shape), x.reshape(info, batch)
    message = "linalg.cholesky: the input is not positive-definite"
    _refuse_failures(x, info, check_errors, message)
    return adjoint_of(x, factor) if upper else factor, info


@lower(aten.cholesky)
def cholesky(x: Builder, a: Value, upper: bool) -> Value:
    return cholesky_ex(x, a, upper=upper, check_errors=True)[0]


@lower(aten.cholesky_solve)
def cholesky_solve(x: Builder, b: Value, factor: Value, upper: bool) -> Value:
    factor, b = broadcast_batches(x, factor, b)
    ways = ("ADJOINT", "NO_TRANSPOSE") if upper else ("NO_TRANSPOSE", "ADJOINT")
    for way in ways:
        b = solve_triangular(x, factor, b, upper=upper, transpose=way)
    return b


@lower(aten.cholesky_inverse)
def cholesky_inverse(x: Builder, factor: Value, upper: bool) -> Value:
    unit = identity(x, factor.dtype, factor.shape[:-2], factor.shape[-1])
    return cholesky_solve(x, unit, factor, upper)


# LU


def _lu(x: Builder, a: Value) -> tuple[Value, Value, Value]:
    """Both factors in one, the row exchanged at each step (from 1), and the first zero pivot."""
    batch, m, n = a.shape
    steps = min(m, n)
    rows, columns = position(x, [1, m, 1], 1), position(x, [1, 1, n], 2)
    nothing = x.constant(0, a.dtype)

    def step(k: Value, lu: Value, pivots: Value, info: Value) -> list[Value]:
        zero = x.constant(0, torch.int32)
        column = x.dynamic_slice(lu, [zero, zero, k], [batch, m, 1])
        size = x.abs(x.real(column))
        if a.dtype.is_complex:
            size = size + x.abs(x.imag(column))
        _, at = x.argmax(x.select(rows < k, x.constant(-1, size.dtype), size), 1, keepdim=True)
        at = at.to(torch.int32)
        upper = x.dynamic_slice(lu, [zero, k, zero], [batch, 1, n])
        pivot_row = x.sum(x.select(rows.eq(at), lu, nothing), [1], keepdim=True)
        lu = x.select(rows.eq(k), pivot_row, x.select(rows.eq(at), upper, lu))
        pivot = x.sum(x.select(columns.eq(k), pivot_row, nothing), [2], keepdim=True)
        is_zero = pivot.eq(0)
        column = x.dynamic_slice(lu, [zero, zero, k], [batch, m, 1])
        factor = column / x.select(is_zero, x.constant(1, a.dtype), pivot)
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


def lu_factor(x: Builder, a: Value) -> tuple[Value, Value, Value]:
    """The same for any batch, and for matrices without elements."""
    batch, steps = a.shape[:-2], min(a.shape[-2:])
    if not a.size:
        pivots = x.constant(0, torch.int32, [*batch, steps])
        return a, pivots, x.constant(0, torch.int32, batch)
    lu, pivots, info = _lu(x, flat_batch(x, a))
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


def _permuted(x: Builder, permutation: Value, b: Value, *, back: bool) -> Value:
    """Rows of `b` in another order, or back in theirs; all values have one batch dimension."""
    batch, m = permutation.shape
    shape = [batch, m, m]
    chosen = position(x, shape, 2).eq(x.unsqueeze(permutation, 2))
    if back:
        chosen = transposed(x, chosen)
    _, order = x.argmax(chosen.to(torch.int32), 2)
    rows = x.broadcast(x.unsqueeze(order.to(torch.int32), 2), b.shape)
    return x.take_elements(b, [position(x, b.shape, 0), rows, position(x, b.shape, 2)])


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
        rows = _permuted(x, permutation, rows, back=True)
    else:
        rows = _permuted(x, permutation, rows, back=False)
        rows = solve_triangular(x, factors, rows, upper=False, unit=True)
        rows = solve_triangular(x, factors, rows, upper=True)
    return x.reshape(rows, b.shape)


def _refuse_no_pivoting(pivot: bool) -> None:
    if not pivot:
        raise LoweringError("LU without pivoting cannot be expressed; leave pivot=True")


@lower(aten.linalg_lu_factor_ex)
def lu_factor_ex(
    x: Builder, a: Value, *, pivot: bool, check_errors: bool
) -> tuple[Value, Value, Value]:
    _refuse_no_pivoting(pivot)
    lu, pivots, info = lu_factor(x, a)
    _refuse_failures(x, info, check_errors, "torch.linalg.lu_factor_ex: U has a zero pivot")
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
    _refuse_no_pivoting(pivot)
    lu, pivots, _ = lu_factor(x, a)
    return lu_unpack(x, lu, pivots, True, True)


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
    _refuse_failures(x, info, check_errors, "torch.linalg.solve: the matrix is singular")
    return result, lu, pivots, info


@lower(aten.linalg_inv_ex)
def inv_ex(x: Builder, a: Value, *, check_errors: bool) -> tuple[Value, Value]:
    lu, pivots, info = lu_factor(x, a)
    unit = identity(x, a.dtype, a.shape[:-2], a.shape[-1])
    result = lu_solve(x, lu, pivots, unit, adjoint=False)
    _refuse_failures(x, info, check_errors, "torch.linalg.inv: the matrix is singular")
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
