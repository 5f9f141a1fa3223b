"""torch.use_deterministic_algorithms alerts for what CUDA alerts for."""

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).to("neuron").requires_grad_()


ALERTING: dict[str, Callable[[], object]] = {
    "avg_pool3d backward": lambda: F.avg_pool3d(randn(1, 1, 4, 4, 4), 2).sum().backward(),
    "adaptive_avg_pool2d backward": lambda: (
        F.adaptive_avg_pool2d(randn(1, 1, 5, 5), 2).sum().backward()
    ),
    "interpolate backward": lambda: (
        F.interpolate(randn(1, 1, 4, 4), scale_factor=2, mode="bicubic").sum().backward()
    ),
    "reflection pad backward": lambda: F.pad(randn(1, 4, 4), (1, 1), "reflect").sum().backward(),
    "nll_loss2d": lambda: F.nll_loss(
        randn(1, 3, 4, 4), torch.zeros(1, 4, 4, dtype=torch.int64, device="neuron")
    ),
    "grid_sample backward": lambda: (
        F.grid_sample(randn(1, 1, 4, 4), randn(1, 2, 2, 2), align_corners=False).sum().backward()
    ),
    "histc": lambda: torch.histc(randn(8).detach(), bins=4),
    "weighted bincount": lambda: torch.bincount(
        torch.tensor([0, 1, 1], device="neuron"), randn(3).detach()
    ),
    "median with indices": lambda: randn(3, 4).median(dim=1),
    "floating-point cumsum": lambda: randn(4).cumsum(0),
    "scatter_reduce by product": lambda: torch.ones(3, device="neuron").scatter_reduce(
        0, torch.tensor([0, 0], device="neuron"), randn(2).detach(), "prod"
    ),
}

SILENT: dict[str, Callable[[], object]] = {
    "integer cumsum": lambda: torch.arange(4, device="neuron").cumsum(0),
    "unweighted bincount": lambda: torch.bincount(torch.tensor([0, 1, 1], device="neuron")),
    "scatter_reduce by maximum": lambda: torch.ones(3, device="neuron").scatter_reduce(
        0, torch.tensor([0, 0], device="neuron"), randn(2).detach(), "amax"
    ),
    # PyTorch replaces this one by a deterministic decomposition.
    "bilinear interpolate backward": lambda: (
        F.interpolate(randn(1, 1, 4, 4), scale_factor=2, mode="bilinear").sum().backward()
    ),
    "matmul": lambda: (randn(3, 3) @ randn(3, 3)).sum().backward(),
}


@pytest.mark.parametrize("name", ALERTING)
def test_nondeterministic_operator_is_refused(name: str, deterministic: None) -> None:
    with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
        ALERTING[name]()


@pytest.mark.parametrize("name", ALERTING)
def test_nondeterministic_operator_runs_by_default(name: str) -> None:
    ALERTING[name]()


@pytest.mark.parametrize("name", SILENT)
def test_deterministic_operator_is_allowed(name: str, deterministic: None) -> None:
    SILENT[name]()


def test_uninitialized_memory_is_filled(deterministic: None) -> None:
    assert torch.empty(4, device="neuron").isnan().all()
    assert (torch.empty(4, dtype=torch.int32, device="neuron") == 2**31 - 1).all()
    assert torch.empty_strided((2, 2), (2, 1), device="neuron").isnan().all()
    assert torch.ones(2, device="neuron").resize_(5)[2:].isnan().all()
