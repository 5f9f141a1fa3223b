"""Window functions, which are factories: PyTorch's operator database has none of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

WINDOWS: list[Callable[..., torch.Tensor]] = [
    torch.bartlett_window,
    torch.blackman_window,
    torch.hamming_window,
    torch.hann_window,
    torch.kaiser_window,
]


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("length", [0, 1, 2, 7])
@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: w.__name__)
def test_windows_are_the_cpus(
    window: Callable[..., torch.Tensor], length: int, periodic: bool
) -> None:
    actual = window(length, periodic=periodic, device="neuron")
    assert actual.device.type == "neuron"
    torch.testing.assert_close(actual.cpu(), window(length, periodic=periodic))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_the_kaiser_window_takes_beta_and_dtype(dtype: torch.dtype) -> None:
    actual = torch.kaiser_window(9, False, 5.0, dtype=dtype, device="neuron")
    expected = torch.kaiser_window(9, False, 5.0, dtype=dtype)
    torch.testing.assert_close(actual.cpu(), expected)


def test_the_kaiser_window_refuses_integers() -> None:
    with pytest.raises(RuntimeError, match="floating point"):
        torch.kaiser_window(5, dtype=torch.int64, device="neuron")
