"""Batches of matrices: their transposes, triangles and orders of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.elementwise import broadcast_shape
from torch_trainium.lowering.values import Value

LinAlgError: type[Exception] = torch.linalg.LinAlgError  # type: ignore[attr-defined]


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


def row_at(x: Builder, a: Value, at: Value) -> Value:
    """The row of each matrix of a batch with its number in `at`, [batch, 1, 1]; else zeros."""
    rows = position(x, [1, a.shape[1], 1], 1)
    return x.sum(x.select(rows.eq(at), a, x.constant(0, a.dtype)), [1], keepdim=True)


def column_at(x: Builder, a: Value, at: Value) -> Value:
    """The same of columns."""
    columns = position(x, [1, 1, a.shape[2]], 2)
    return x.sum(x.select(columns.eq(at), a, x.constant(0, a.dtype)), [2], keepdim=True)


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


def mirrored(x: Builder, stored: Value, *, conjugate: bool) -> Value:
    """Whole matrices from one triangle each: Hermitian ones, with a real diagonal, or symmetric."""
    row, column = (position(x, stored.shape, d) for d in (stored.rank - 2, stored.rank - 1))
    diagonal = x.real(stored).to(stored.dtype) if conjugate else stored
    other = adjoint_of(x, stored) if conjugate else transposed(x, stored)
    return x.select(row.eq(column), diagonal, stored + other)


def broadcast_batches(x: Builder, a: Value, b: Value) -> list[Value]:
    """Two stacks of matrices with their batch dimensions broadcast."""
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    return [x.broadcast(v, [*batch, *v.shape[-2:]]) for v in (a, b)]


def take_rows(x: Builder, a: Value, order: Value) -> Value:
    """Rows of a batch of matrices in the order of a batch of their numbers."""
    shape = [*order.shape, a.shape[2]]
    rows = x.broadcast(x.unsqueeze(order, 2), shape)
    return x.take_elements(a, [position(x, shape, 0), rows, position(x, shape, 2)])


def inverse_order(x: Builder, order: Value) -> Value:
    """Where each number stands in a batch of permutations."""
    batch, n = order.shape
    places = position(x, [batch, n, n], 1)
    found = x.unsqueeze(order, 2).eq(position(x, [batch, n, n], 2))
    return x.sum(x.select(found, places, 0), [1])


def order_of(x: Builder, keys: Value, *, descending: bool = False) -> Value:
    """Which element comes where in ascending order, for a batch of rows; equal ones keep theirs.

    NaN counts as the largest number.
    """
    batch, n = keys.shape
    keys = x.select(x.is_nan(keys), x.constant(math.inf, keys.dtype), keys)
    other, own = x.unsqueeze(keys, 1), x.unsqueeze(keys, 2)
    precedes = other > own if descending else other < own
    shape = [batch, n, n]
    is_before = precedes | (other.eq(own) & (position(x, shape, 2) < position(x, shape, 1)))
    return inverse_order(x, x.sum(is_before.to(torch.int32), [2]))


def refuse_failures(x: Builder, info: Value, wanted: bool, message: str) -> None:
    """Let the program raise LinAlgError where LAPACK's error code is not zero, if that is asked."""
    if wanted:
        x.check(info.ne(0), LinAlgError, message)


def scaled_to_one(x: Builder, a: Value) -> tuple[Value, Value]:
    """A batch of matrices over their largest elements' sizes, and these: [batch, 1, 1]."""
    size = x.max(x.abs(a), [1, 2], keepdim=True)
    scale = x.select(size.eq(0), x.constant(1, size.dtype), size)
    return a / scale.to(a.dtype), scale
