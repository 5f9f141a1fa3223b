"""Least squares and pseudo-inverses, by singular values."""

from __future__ import annotations

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.elementwise import broadcast_shape
from torch_trainium.lowering.matrices import LinAlgError, adjoint_of
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Operand, Value

aten = torch.ops.aten


def _inverse_values(x: Builder, values: Value, tolerance: Value) -> tuple[Value, Value]:
    """Which values count, [..., k], and their reciprocals, zero for the others."""
    counts = x.abs(values) > tolerance
    reciprocal = 1 / x.select(counts, values, x.constant(1, values.dtype))
    return counts, x.select(counts, reciprocal, x.constant(0, values.dtype))


def _product(x: Builder, left: Value, values: Value, right: Value) -> Value:
    """`left @ diag(values) @ right`."""
    return x.matmul(left * x.unsqueeze(values, values.rank - 1).to(left.dtype), right)


@lower(aten.linalg_pinv.atol_rtol_tensor)
def pinv(x: Builder, a: Value, *, atol: Value | None, rtol: Value | None, hermitian: bool) -> Value:
    *batch, m, n = a.shape
    if not a.size:
        return x.constant(0, a.dtype, [*batch, n, m])
    if hermitian:
        values, left = x.call_all(aten._linalg_eigh.default, a, "L", True)
        right = adjoint_of(x, left)
    else:
        u, values, vh = x.call_all(aten._linalg_svd.default, a, False, True)
        left, right = adjoint_of(x, vh), adjoint_of(x, u)
    real = values.dtype
    absolute = x.constant(0, real) if atol is None else atol.to(real)
    if rtol is None:
        relative = x.constant(torch.finfo(real).eps * max(m, n), real)
        if atol is not None:
            relative = x.select(absolute > 0, x.constant(0, real), relative)
    else:
        relative = rtol.to(real)
    largest = x.max(x.abs(values), [values.rank - 1], keepdim=True)
    absolute, relative = (x.unsqueeze(v, v.rank) for v in (absolute, relative))
    _, inverse = _inverse_values(x, values, x.maximum(absolute, relative * largest))
    return _product(x, left, inverse, right)


@lower(aten.linalg_lstsq)
def lstsq(
    x: Builder, a: Value, b: Value, rcond: Operand | None, *, driver: str | None
) -> tuple[Value, Value, Value, Value]:
    """Residuals of matrices without full rank too: the host reads the rank and drops them."""
    driver = driver or "gelsy"
    *batch, m, n = a.shape
    is_vector = b.rank == 1 or (b.rank == a.rank - 1 and b.shape == a.shape[:-1])
    columns = x.unsqueeze(b, b.rank) if is_vector else b
    batch = list(broadcast_shape(batch, columns.shape[:-2]))
    a = x.broadcast(a, [*batch, m, n])
    columns = x.broadcast(columns, [*batch, *columns.shape[-2:]])
    real = dtypes.real_dtype(a.dtype)
    u, values, vh = x.call_all(aten._linalg_svd.default, a, False, True)
    if driver == "gels":
        x.check(
            values.eq(0),
            LinAlgError,
            "torch.linalg.lstsq: The least squares solution could not be computed because the "
            "input matrix does not have full rank",
        )
        tolerance = x.constant(0, real)
    else:
        share = torch.finfo(real).eps * max(m, n) if rcond is None else rcond
        tolerance = x.max(values, [values.rank - 1], keepdim=True) * x.number(share, real)
    counts, inverse = _inverse_values(x, values, tolerance)
    rotated = x.matmul(adjoint_of(x, u), columns)
    solution = x.matmul(adjoint_of(x, vh), rotated * x.unsqueeze(inverse, inverse.rank).to(a.dtype))
    empty = x.constant(0, real, [0])
    residuals, rank = empty, x.constant(0, torch.int64, [0])
    if m > n and driver != "gelsy":
        distance = x.abs(x.matmul(a, solution) - columns)
        residuals = x.sum(distance * distance, [distance.rank - 2])
        residuals = x.squeeze(residuals, [-1]) if is_vector else residuals
    if driver != "gels":
        rank = x.sum(counts.to(torch.int32), [counts.rank - 1]).to(torch.int64)
    return (
        x.squeeze(solution, [-1]) if is_vector else solution,
        residuals,
        rank,
        values if driver in ("gelsd", "gelss") else empty,
    )
