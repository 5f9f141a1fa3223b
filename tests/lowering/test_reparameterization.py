"""Gradients of gamma and Dirichlet numbers by their parameters."""

from __future__ import annotations

import pytest
import torch

from torch_trainium.eager import calls

from .compare import on_the_cpu

aten = torch.ops.aten

# From tiny parameters to large ones, so that every case of the approximations occurs.
COUNT = 4000


def spread(low: float, high: float, *shape: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.empty(shape, dtype=torch.float64).uniform_(low, high).exp()


# The CPU computes the first in float64 whatever the dtype, a program in the tensors' own.
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 2e-5)])
def test_gamma(dtype, tolerance):
    alpha = spread(-4, 9, COUNT).to(dtype)
    drawn = torch._standard_gamma(alpha)
    drawn[0] = 0
    expected = torch._standard_gamma_grad(alpha, drawn)
    with on_the_cpu():
        actual = calls.call(aten._standard_gamma_grad.default, alpha, drawn)
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_dirichlet(dtype):
    alpha = spread(-3, 7, COUNT, 3).to(dtype)
    drawn = torch._sample_dirichlet(alpha)
    total = alpha.sum(-1, keepdim=True).expand_as(alpha)
    # The CPU's own series in float32 are less exact than a program's.
    expected = torch._dirichlet_grad(drawn.double(), alpha.double(), total.double())
    with on_the_cpu():
        actual = calls.call(aten._dirichlet_grad.default, drawn, alpha, total)
    torch.testing.assert_close(
        actual, expected.to(dtype), rtol=1e-7 if dtype is torch.float32 else 1e-10, atol=0
    )
