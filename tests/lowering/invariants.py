"""Results that no two implementations agree on element by element, and what they must satisfy.

Vectors of a decomposition are free in sign or phase, and in more where values coincide: PyTorch
documents them as not unique. Checks get the call's arguments, its results and the CPU's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.testing import assert_close

Check = Callable[[Sequence[Any], Sequence[Tensor], Sequence[Tensor]], None]


def eigh(args: Sequence[Any], results: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    """Ascending eigenvalues as the CPU's; orthonormal vectors that make the matrix of them."""
    (values, vectors), matrix = results, args[0]
    assert_close(values, expected[0])
    if vectors.numel():
        triangle = matrix.tril(-1) if [*args, "L"][1].upper() == "L" else matrix.triu(1).mH
        diagonal = torch.diag_embed(matrix.diagonal(dim1=-2, dim2=-1).real).to(matrix.dtype)
        assert_close(triangle + diagonal + triangle.mH, vectors * values.unsqueeze(-2) @ vectors.mH)
        assert_orthonormal(vectors)


def svd(args: Sequence[Any], results: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    """Descending singular values as the CPU's; orthonormal vectors that make the matrix of them."""
    (left, values, right), matrix = results, args[0]
    assert_close(values, expected[1])
    if left.numel() and right.numel():
        count = values.shape[-1]
        product = left[..., :count] * values.unsqueeze(-2) @ right[..., :count, :]
        assert_close(product, matrix)
        assert_orthonormal(left)
        assert_orthonormal(right.mH)


def eig(args: Sequence[Any], results: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    """The CPU's eigenvalues in any order; unit vectors that the matrix multiplies by them."""
    (values, vectors), matrix = results, args[0]
    eigenvalues_in_any_order(args, [values], expected)
    assert_close(matrix.to(vectors.dtype) @ vectors, vectors * values.unsqueeze(-2))
    lengths = torch.linalg.vector_norm(vectors, dim=-2)
    assert_close(lengths, torch.ones_like(lengths))


def eigenvalues_in_any_order(
    args: Sequence[Any], results: Sequence[Tensor], expected: Sequence[Tensor]
) -> None:
    """Each value is taken with the nearest of the CPU's that is left."""
    count = results[0].shape[-1]
    for values, wanted in zip(
        results[0].reshape(-1, count), expected[0].reshape(-1, count), strict=True
    ):
        left = list(range(count))
        for value in values:
            nearest = min(left, key=lambda i: float(abs(wanted[i] - value)))
            left.remove(nearest)
            assert_close(value, wanted[nearest])


def assert_orthonormal(columns: Tensor) -> None:
    """Columns of length 1, at right angles."""
    unit = torch.eye(columns.shape[-1], dtype=columns.dtype)
    assert_close(columns.mH @ columns, unit.expand(columns.shape[:-2] + unit.shape))


CHECKS: dict[str, Check] = {
    "aten::_linalg_eigh": eigh,
    "aten::_linalg_svd": svd,
    "aten::linalg_eig": eig,
    "aten::_linalg_eigvals": eigenvalues_in_any_order,
    "aten::linalg_eigvals": eigenvalues_in_any_order,
}


def problems(name: str, args: Any, actual: Any, expected: Any) -> list[str]:
    """What an operator's results, copied to the CPU, do not satisfy."""
    actual, expected = (r if isinstance(r, tuple) else (r,) for r in (actual, expected))
    try:
        with torch.no_grad():
            CHECKS[name](args, actual, expected)
    except AssertionError as difference:
        return [str(difference)]
    return []
