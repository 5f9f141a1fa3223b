"""Eigenvalues and eigenvectors of any square matrices, by the QR algorithm with shifts.

The matrix becomes triangular, from its last row up, by unitary similarities: each is the
orthogonal factor of the rows that are left less a shift (Golub and Van Loan, 7.5). Real matrices
go the same way in complex numbers. Matrices of a batch go on at their own pace.
"""

from __future__ import annotations

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.matrices import (
    adjoint_of,
    column_at,
    flat_batch,
    identity,
    position,
    row_at,
    scaled_to_one,
    triangle,
)
from torch_trainium.lowering.ops.orthogonal import reflected, reflectors
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten

# Two or three turns a row are usual.
MAX_TURNS_A_ROW = 30
# Every so many turns without a result, a shift from outside breaks a cycle, as in LAPACK.
TURNS_UNTIL_EXCEPTION = 10


@lower(aten.linalg_eig)
def eig(x: Builder, a: Value) -> tuple[Value, Value]:
    complex_dtype = dtypes.complex_dtype(a.dtype)
    if not a.size:
        return x.constant(0, complex_dtype, a.shape[:-1]), a.to(complex_dtype)
    stack, scale = _finite(x, a)
    triangular, rows = _schur(x, stack)
    values = _eigenvalues(x, triangular, scale, a)
    vectors = x.dot(adjoint_of(x, rows), _eigenvectors(x, triangular))
    return values, x.reshape(_normalized(x, vectors), a.shape)


@lower(aten._linalg_eigvals)
def eigvals(x: Builder, a: Value) -> Value:
    if not a.size:
        return x.constant(0, dtypes.complex_dtype(a.dtype), a.shape[:-1])
    stack, scale = _finite(x, a)
    return _eigenvalues(x, _schur(x, stack)[0], scale, a)


def _finite(x: Builder, a: Value) -> tuple[Value, Value]:
    """A batch in complex numbers of size 1, and the sizes."""
    message = "torch.linalg.eig: input tensor should not contain infs or NaNs."
    x.check(~x.is_finite(x.abs(a)), RuntimeError, message)
    return scaled_to_one(x, flat_batch(x, a).to(dtypes.complex_dtype(a.dtype)))


def _schur(x: Builder, a: Value) -> tuple[Value, Value]:
    """The triangular matrices, and the adjoints of the unitary ones that make them."""
    batch, n, _ = a.shape
    rows, columns = position(x, a.shape, 1), position(x, a.shape, 2)
    unit, nothing = identity(x, a.dtype, [batch], n), x.constant(0, a.dtype)
    negligible = torch.finfo(dtypes.real_dtype(a.dtype)).eps

    def turn(number: Value, a: Value, unitary: Value, left: Value, since: Value) -> list[Value]:
        """`left` rows are not triangular yet, the last of them tried `since` turns."""
        last = row_at(x, a, left - 1)
        beside = x.select(columns < left - 1, last, nothing)
        distance = x.max(x.abs(beside), [1, 2], keepdim=True)
        is_done = distance <= negligible
        is_stuck = since.eq(TURNS_UNTIL_EXCEPTION)
        outside = column_at(x, last, left - 1) + distance.to(a.dtype)
        shift = x.select(is_stuck, outside, _shift(x, a, left))
        is_turned = (rows < left) & (columns < left) & ~is_done
        factors, weights = reflectors(x, x.select(is_turned, a - shift * unit, unit))
        a = reflected(x, factors, weights, a, adjoint=True)
        a = adjoint_of(x, reflected(x, factors, weights, adjoint_of(x, a), adjoint=True))
        unitary = reflected(x, factors, weights, unitary, adjoint=True)
        a = x.select(is_done & rows.eq(left - 1) & (columns < rows), nothing, a)
        since = x.select(is_done | is_stuck, 0, since + 1)
        return [number + 1, a, unitary, left - is_done.to(torch.int32), since]

    start = [
        x.constant(0, torch.int32),
        a,
        unit,
        x.constant(n, torch.int32, [batch, 1, 1]),
        x.constant(0, torch.int32, [batch, 1, 1]),
    ]
    _, a, unitary, *_ = x.while_(
        start,
        lambda number, a, unitary, left, since: x.any(left > 1) & (number < MAX_TURNS_A_ROW * n),
        turn,
    )
    return triangle(x, a, upper=True), unitary


def _shift(x: Builder, a: Value, left: Value) -> Value:
    """Wilkinson's: the eigenvalue of the last two rows that is nearer to the last element."""
    above, last = row_at(x, a, left - 2), row_at(x, a, left - 1)
    first, beside = column_at(x, above, left - 2), column_at(x, above, left - 1)
    below, own = column_at(x, last, left - 2), column_at(x, last, left - 1)
    half = (first - own) / x.constant(2, a.dtype)
    product = beside * below
    root = x.sqrt(half * half + product)
    sum_, difference = half + root, half - root
    divisor = x.select(x.abs(sum_) >= x.abs(difference), sum_, difference)
    is_zero = divisor.eq(0)
    return x.select(is_zero, own, own - product / x.select(is_zero, 1, divisor))


def _eigenvalues(x: Builder, triangular: Value, scale: Value, a: Value) -> Value:
    """The diagonal; of real matrices, an imaginary part that is rounding is none."""
    on_diagonal = position(x, triangular.shape, 1).eq(position(x, triangular.shape, 2))
    values = x.sum(x.select(on_diagonal, triangular, 0), [2])
    if not a.dtype.is_complex:
        rounding = torch.finfo(a.dtype).eps * a.shape[-1]
        imaginary = x.imag(values)
        imaginary = x.select(x.abs(imaginary) <= rounding, 0, imaginary)
        values = x.complex(x.real(values), imaginary)
    return x.reshape(values * x.squeeze(scale, [2]).to(values.dtype), a.shape[:-1])


def _eigenvectors(x: Builder, a: Value) -> Value:
    """Columns of which triangular matrices make multiples, from the last row up."""
    batch, n, _ = a.shape
    on_diagonal = position(x, a.shape, 1).eq(position(x, a.shape, 2))
    values = x.sum(x.select(on_diagonal, a, 0), [1], keepdim=True)
    columns = position(x, [1, 1, n], 2)
    smallest = torch.finfo(dtypes.real_dtype(a.dtype)).eps

    def step(k: Value, vectors: Value) -> list[Value]:
        zero = x.constant(0, torch.int32)
        row = x.dynamic_slice(a, [zero, k, zero], [batch, 1, n])
        value = x.sum(x.select(columns.eq(k), row, 0), [2], keepdim=True)
        known = x.dot(x.select(columns > k, row, 0), vectors)
        gap = value - values
        gap = x.select(x.abs(gap) < smallest, x.constant(smallest, a.dtype), gap)
        element = x.select(columns > k, -known / gap, 0)
        own = x.dynamic_slice(vectors, [zero, k, zero], [batch, 1, n])
        vectors = x.dynamic_update_slice(vectors, element + own, [zero, k, zero])
        # Near a defective matrix they grow without bound: only their direction counts.
        size = x.maximum(x.max(x.abs(vectors), [1], keepdim=True), 1)
        return [k - 1, vectors / size.to(a.dtype)]

    start = [x.constant(n - 1, torch.int32), identity(x, a.dtype, [batch], n)]
    return x.while_(start, lambda k, vectors: k >= 0, step)[1]


def _normalized(x: Builder, vectors: Value) -> Value:
    """Columns of length 1 whose largest element is real, as LAPACK has them."""
    size = x.abs(vectors)
    length = x.sqrt(x.sum(size * size, [1], keepdim=True))
    _, at = x.argmax(size, 1, keepdim=True)
    is_largest = position(x, vectors.shape, 1).eq(at.to(torch.int32))
    largest = x.sum(x.select(is_largest, vectors, 0), [1], keepdim=True)
    phase = x.conj(largest) / (x.abs(largest) * length).to(vectors.dtype)
    turned = vectors * phase
    return x.select(is_largest, x.real(turned).to(vectors.dtype), turned)
