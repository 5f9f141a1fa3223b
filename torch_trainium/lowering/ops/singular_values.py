"""Singular values and vectors by the one-sided Jacobi method (Hestenes, 1958)."""

from __future__ import annotations

import math

import torch

from torch_trainium.lowering import dtypes, jacobi
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.matrices import (
    LinAlgError,
    adjoint_of,
    flat_batch,
    identity,
    order_of,
    position,
    scaled_to_one,
    take_rows,
)
from torch_trainium.lowering.ops.orthogonal import orthogonal_factors
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


@lower(aten._linalg_svd)
def svd(
    x: Builder, a: Value, full_matrices: bool, compute_uv: bool, *, driver: str | None
) -> tuple[Value, Value, Value]:
    *batch, m, n = a.shape
    least = min(m, n)
    left, right = ((m, n) if full_matrices else (least, least)) if compute_uv else (0, 0)
    if not a.size:
        values = x.constant(0, dtypes.real_dtype(a.dtype), [*batch, least])
        if not compute_uv:
            return x.constant(0, a.dtype, [0]), values, x.constant(0, a.dtype, [0])
        return (
            rectangular_identity(x, a.dtype, [*batch, m, left]),
            values,
            rectangular_identity(x, a.dtype, [*batch, right, n]),
        )
    stack = flat_batch(x, a)
    x.check(
        x.is_nan(stack),
        LinAlgError,
        "linalg.svd: The algorithm failed to converge because the input matrix contained "
        "non-finite values.",
    )
    tall = stack if m >= n else adjoint_of(x, stack)
    products, values, second = tall_svd(x, tall, compute_uv)
    values = x.reshape(values, [*batch, least])
    if not compute_uv:
        return x.constant(0, a.dtype, [0]), values, x.constant(0, a.dtype, [0])
    first = _unit_columns(x, products, max(left, right))
    if m < n:
        first, second = adjoint_of(x, second), adjoint_of(x, first)
    return x.reshape(first, [*batch, m, left]), values, x.reshape(second, [*batch, right, n])


def rectangular_identity(x: Builder, dtype: torch.dtype, shape: list[int]) -> Value:
    """Ones on the diagonals."""
    rank = len(shape)
    return position(x, shape, rank - 2).eq(position(x, shape, rank - 1)).to(dtype)


def tall_svd(x: Builder, a: Value, with_vectors: bool = True) -> tuple[Value, Value, Value]:
    """Of a batch: its products with the right singular vectors, their lengths, and the adjoint.

    The lengths are the singular values, in descending order. `a` has at least as many rows as
    columns. Products are those of a multiple of it.
    """
    batch, m, n = a.shape
    real = dtypes.real_dtype(a.dtype)
    scaled, scale = scaled_to_one(x, a)
    rows = adjoint_of(x, scaled)
    if with_vectors:
        rows = x.concatenate([rows, identity(x, a.dtype, [batch], n)], 2)
    rows = jacobi.with_even_rows(x, rows)
    finfo = torch.finfo(real)
    # Below that, a cosine is rounding of the product; below `smallest`, so is the product.
    done_at, smallest = math.sqrt(m) * finfo.eps, finfo.tiny / finfo.eps

    def turn(rows: Value) -> list[Value]:
        first, second = (x.slice_in_dim(half, 2, 0, m) for half in jacobi.halves(x, rows))
        alpha, beta = (_squared_lengths(x, half) for half in (first, second))
        gamma = x.sum(first * x.conj(second), [2], keepdim=True)
        threshold = x.sqrt(alpha) * x.sqrt(beta) * done_at + smallest
        return [jacobi.turned(x, rows, alpha, beta, gamma), x.any(x.abs(gamma) > threshold)]

    (rows,) = jacobi.sweeps(x, [rows], rows.shape[1], turn)
    rows = x.slice_in_dim(rows, 1, 0, n)
    lengths = x.sqrt(_squared_lengths(x, x.slice_in_dim(rows, 2, 0, m)))
    order = order_of(x, x.squeeze(lengths, [2]), descending=True)
    rows = take_rows(x, rows, order)
    values = x.squeeze(take_rows(x, lengths, order) * scale, [2])
    products = adjoint_of(x, x.slice_in_dim(rows, 2, 0, m))
    return products, values, x.slice_in_dim(rows, 2, m, rows.shape[2])


def _squared_lengths(x: Builder, rows: Value) -> Value:
    size = x.abs(rows)
    return x.sum(size * size, [2], keepdim=True)


def _unit_columns(x: Builder, products: Value, count: int) -> Value:
    """Orthogonal columns made of length 1; where they are zero, and beyond them, others are found.

    Their orthogonal factor is these columns, up to the signs on the triangular factor's diagonal.
    """
    n = products.shape[2]
    columns, triangular = orthogonal_factors(x, products, count)
    square = x.slice_in_dim(triangular, 1, 0, n)
    on_diagonal = position(x, square.shape, 1).eq(position(x, square.shape, 2))
    diagonal = x.sum(x.select(on_diagonal, square, x.constant(0, square.dtype)), [1], keepdim=True)
    size = x.abs(diagonal)
    one = x.constant(1, size.dtype)
    divisor = x.select(size.eq(0), one, size).to(products.dtype)
    signs = x.select(size.eq(0), x.constant(1, products.dtype), diagonal / divisor)
    return columns * x.pad(signs, 1, [0, 0, 0], [0, 0, count - n])
