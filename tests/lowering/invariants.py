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


def assert_orthonormal(columns: Tensor) -> None:
    """Columns of length 1, at right angles."""
    unit = torch.eye(columns.shape[-1], dtype=columns.dtype)
    assert_close(columns.mH @ columns, unit.expand(columns.shape[:-2] + unit.shape))


CHECKS: dict[str, Check] = {"aten::_linalg_eigh": eigh, "aten::_linalg_svd": svd}


def problems(name: str, args: Any, actual: Any, expected: Any) -> list[str]:
    """What an operator's results on the CPU do not satisfy."""
    try:
        with torch.no_grad():
            CHECKS[name](args, actual, expected)
    except AssertionError as difference:
        return [str(difference)]
    return []
