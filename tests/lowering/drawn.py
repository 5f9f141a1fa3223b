"""What tests of drawn shapes share: how many are drawn, and one drawn call compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from hypothesis import HealthCheck, settings
from torch import Tensor
from torch.utils._pytree import tree_leaves

from torch_trainium.eager import eager_mode_is, fallback_is
from torch_trainium.neuron.cpu_fallbacks import native_means_expressible

from .compare import CompareWithCpu

# Each shape is a few programs to compile.
FEW = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def random(shape: Sequence[int], dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    """Numbers on the device that ask for a gradient, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(list(shape), generator=generator)
    return numbers.to("neuron", dtype).requires_grad_()


def agrees(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Assert that each operator of a call and of its gradient is a program, and gives the CPU's."""
    with (
        eager_mode_is("compiled"),
        native_means_expressible(),
        fallback_is("error"),
        CompareWithCpu("neuron") as mode,
    ):
        leaves = [t for t in tree_leaves(function(*args, **kwargs)) if isinstance(t, Tensor)]
        results = [t for t in leaves if t.requires_grad]
        if results:
            torch.autograd.backward(results, [torch.ones_like(t) for t in results])
    assert not mode.failed, mode.failed
    assert not mode.unsupported, mode.unsupported
    assert mode.passed
