"""Triangular systems and Cholesky factors, a row or column of all matrices at a time."""

from __future__ import annotations

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.matrices import (
    adjoint_of,
    broadcast_batches,
    flat_batch,
    identity,
    position,
    refuse_failures,
    transposed,
)
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


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
    if transpose != "NO_TRANSPOSE":
        a = transposed(x, a) if transpose == "TRANSPOSE" else adjoint_of(x, a)
        upper = not upper
    if not left:
        turned = solve_triangular(x, transposed(x, a), transposed(x, b), upper=not upper, unit=unit)
        return transposed(x, turned)
    result = _substitute(x, flat_batch(x, a), flat_batch(x, b), upper=upper, unit=unit)
    return x.reshape(result, b.shape)


def _substitute(x: Builder, a: Value, b: Value, *, upper: bool, unit: bool) -> Value:
    """Row after row from the known end, each taken out of those that are left."""
    batch, n, columns = b.shape
    rows = position(x, [1, n, 1], 1)

    def step(number: Value, solved: Value) -> list[Value]:
        zero = x.constant(0, torch.int32)
        k = (n - 1) - number if upper else number
        row = x.dynamic_slice(solved, [zero, k, zero], [batch, 1, columns])
        if not unit:
            row = row / x.dynamic_slice(a, [zero, k, k], [batch, 1, 1])
        factors = x.dynamic_slice(a, [zero, zero, k], [batch, n, 1])
        is_left = rows < k if upper else rows > k
        solved = x.select(is_left, solved - factors * row, solved)
        return [number + 1, x.dynamic_update_slice(solved, row, [zero, k, zero])]

    start = [x.constant(0, torch.int32), b]
    return x.while_(start, lambda number, solved: number < n, step)[1]


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
    refuse_failures(x, info, check_errors, message)
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
