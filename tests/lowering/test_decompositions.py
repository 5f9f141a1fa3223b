"""Decompositions where they are hard: coinciding values, lost rank, cycles, odd shapes."""

from __future__ import annotations

import pytest
import torch

from torch_trainium.eager import eager_mode_is, fallback_is
from torch_trainium.neuron.cpu_fallbacks import native_means_expressible

from .compare import CompareWithCpu

MATRICES = {
    "zero": torch.zeros(3, 3),
    "identity": torch.eye(4),
    "one element": torch.tensor([[-2.0]]),
    "equal columns": torch.ones(4, 4),
    "cyclic": torch.eye(5).roll(1, 0),
    "rotation": torch.tensor([[0.0, 1.0], [-1.0, 0.0]]),
    "nothing": torch.zeros(0, 0),
    "nothing in a batch": torch.zeros(2, 0, 0),
    "odd batch": torch.arange(18.0).reshape(2, 3, 3).sin(),
}


@pytest.fixture(params=MATRICES, ids=str)
def matrix(request: pytest.FixtureRequest) -> torch.Tensor:
    return MATRICES[request.param].to("neuron")


def test_singular_values(compared: CompareWithCpu, matrix: torch.Tensor) -> None:
    torch.linalg.svd(matrix)


def test_eigenvalues_of_symmetric_matrices(compared: CompareWithCpu, matrix: torch.Tensor) -> None:
    torch.linalg.eigh(matrix + matrix.mT)


def test_eigenvalues(compared: CompareWithCpu, matrix: torch.Tensor) -> None:
    torch.linalg.eig(matrix)


def test_factors_and_their_error_codes(compared: CompareWithCpu, matrix: torch.Tensor) -> None:
    torch.linalg.lu_factor_ex(matrix)
    torch.linalg.ldl_factor_ex(matrix + matrix.mT)
    torch.linalg.qr(matrix)


@pytest.mark.parametrize("full_matrices", [False, True])
@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (2, 5), (5, 2), (0, 3), (3, 0), (2, 3, 4)])
def test_singular_values_of_rectangles(
    compared: CompareWithCpu, shape: tuple[int, ...], full_matrices: bool
) -> None:
    count = torch.Size(shape).numel()
    matrix = torch.arange(float(count)).cos().reshape(shape).to("neuron")
    torch.linalg.svd(matrix, full_matrices=full_matrices)


@pytest.mark.parametrize("count", [17, 40])
def test_many_rows_are_as_accurate_as_lapacks(count: int) -> None:
    matrix = torch.arange(float(count * count)).sin().reshape(count, count)
    matrix = matrix + matrix.mT
    exact = torch.linalg.eigvalsh(matrix.double())
    rounding = torch.finfo(torch.float32).eps * exact.abs().max()
    with eager_mode_is("compiled"), native_means_expressible(), fallback_is("error"):
        values, vectors = torch.linalg.eigh(matrix.to("neuron"))
    assert (values.cpu() - exact).abs().max() < 8 * rounding
    assert (vectors.cpu().mT @ vectors.cpu() - torch.eye(count)).abs().max() < 2e-6


def test_a_matrix_with_nan_has_no_singular_values() -> None:
    matrix = torch.full((2, 2), torch.nan, device="neuron")
    with eager_mode_is("compiled"), native_means_expressible(), fallback_is("error"):
        with pytest.raises(torch.linalg.LinAlgError, match="non-finite"):
            torch.linalg.svd(matrix)
        with pytest.raises(RuntimeError, match="infs or NaNs"):
            torch.linalg.eig(matrix)


def test_an_indefinite_matrix_has_no_cholesky_factor() -> None:
    with eager_mode_is("compiled"), native_means_expressible(), fallback_is("error"):
        _, info = torch.linalg.cholesky_ex(torch.diag(torch.tensor([1.0, -1.0])).to("neuron"))
        assert info.item() == 2
        with pytest.raises(torch.linalg.LinAlgError, match="leading minor of order 2"):
            torch.linalg.cholesky(torch.diag(torch.tensor([1.0, -1.0])).to("neuron"))
