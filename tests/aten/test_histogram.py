"""torch.histc counts integers, as on CUDA."""

import pytest
import torch


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64])
def test_integers_are_counted_in_their_own_dtype(dtype: torch.dtype) -> None:
    values = torch.tensor([0, 1, 1, 3, 3, 3, 9], dtype=dtype)
    counts = torch.histc(values.to("neuron"), bins=4, min=0, max=3)
    assert counts.dtype == dtype
    assert counts.tolist() == [1, 2, 0, 3]


def test_range_of_the_data_by_default() -> None:
    values = torch.tensor([2, 4, 4, 6], device="neuron")
    assert torch.histc(values, bins=2).tolist() == [1, 3]


def test_floating_point_agrees_with_the_cpu() -> None:
    values = torch.randn(1000)
    assert torch.equal(torch.histc(values.to("neuron"), 20).cpu(), torch.histc(values, 20))
