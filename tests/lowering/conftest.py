"""Compiled eager for tests that compare whatever they call with the CPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from torch_trainium.eager import eager_mode_is
from torch_trainium.eager.engine_rewrites import engine_rewrites_are
from torch_trainium.neuron.cpu_fallbacks import fallback_is, native_means_expressible

from .compare import CompareWithCpu


@pytest.fixture(scope="package", autouse=True)
def lowerings_alone() -> Iterator[None]:
    """Nothing but what the lowerings wrote runs: kernels of PyTorch prove nothing about them."""
    with engine_rewrites_are(False):
        yield


@pytest.fixture
def compared() -> Iterator[CompareWithCpu]:
    """Every operator of the test is a program that agrees with the CPU's kernel."""
    with (
        eager_mode_is("compiled"),
        native_means_expressible(),
        fallback_is("error"),
        CompareWithCpu("neuron") as mode,
    ):
        yield mode
    assert not mode.failed
    assert not mode.unsupported
    assert mode.passed
