"""Eigenvalues and eigenvectors of Hermitian matrices, by Jacobi's method."""

from __future__ import annotations

import torch

from torch_trainium.lowering import dtypes, jacobi
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.matrices import (
    adjoint_of,
    flat_batch,
    identity,
    mirrored,
    order_of,
    position,
    scaled_to_one,
    take_rows,
    triangle,
)
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


@lower(aten._linalg_eigh)
def eigh(x: Builder, a: Value, uplo: str, compute_v: bool) -> tuple[Value, Value]:
    *batch, n, _ = a.shape
    real = dtypes.real_dtype(a.dtype)
    if not a.size:
        return x.constant(0, real, [*batch, n]), a if compute_v else x.constant(0, a.dtype, [0])
    stored = triangle(x, flat_batch(x, a), upper=uplo.upper() == "U")
    stored, scale = scaled_to_one(x, stored)
    values, rows = _diagonalized(x, mirrored(x, stored, conjugate=True))
    order = order_of(x, values)
    values = x.squeeze(take_rows(x, x.unsqueeze(values, 2), order), [2])
    values = values * x.squeeze(scale, [2])
    if not compute_v:
        return x.reshape(values, [*batch, n]), x.constant(0, a.dtype, [0])
    vectors = adjoint_of(x, take_rows(x, rows, order))
    return x.reshape(values, [*batch, n]), x.reshape(vectors, a.shape)


def _diagonalized(x: Builder, a: Value) -> tuple[Value, Value]:
    """Eigenvalues of a batch in no order, and the adjoint of each eigenvector as a row.

    The matrices have no element above 1 in size.
    """
    batch, n, _ = a.shape
    real = dtypes.real_dtype(a.dtype)
    even = adjoint_of(x, jacobi.with_even_rows(x, adjoint_of(x, jacobi.with_even_rows(x, a))))
    count = even.shape[1]
    vectors = jacobi.with_even_rows(x, identity(x, a.dtype, [batch], n))
    shape = [batch, count // 2, count // 2]
    is_pair = position(x, shape, 1).eq(position(x, shape, 2))
    done_at = torch.finfo(real).eps / 4

    def turn(a: Value, vectors: Value) -> list[Value]:
        nothing = x.constant(0, a.dtype)
        upper, lower_ = jacobi.halves(x, a)
        blocks = [
            x.slice_in_dim(half, 2, start, start + count // 2)
            for half, start in ((upper, 0), (lower_, count // 2), (upper, count // 2))
        ]
        alpha, beta, gamma = (
            x.sum(x.select(is_pair, block, nothing), [2], keepdim=True) for block in blocks
        )
        pairs = (x.real(alpha), x.real(beta), gamma)
        a = jacobi.turned(x, a, *pairs)
        a = adjoint_of(x, jacobi.turned(x, adjoint_of(x, a), *pairs))
        return [a, jacobi.turned(x, vectors, *pairs), x.any(x.abs(gamma) > done_at)]

    diagonal, vectors = jacobi.sweeps(x, [even, vectors], count, turn)
    on_diagonal = position(x, even.shape, 1).eq(position(x, even.shape, 2))
    values = x.sum(x.select(on_diagonal, x.real(diagonal), x.constant(0, real)), [2])
    return x.slice_in_dim(values, 1, 0, n), x.slice_in_dim(vectors, 1, 0, n)
