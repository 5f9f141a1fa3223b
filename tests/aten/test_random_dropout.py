"""Dropout and the randomized leaky rectifier."""

import numpy as np
import pytest
import torch

from tests import threefry_reference as reference
from tests.random_samples import COUNT, FLOATS, SEED, full, numbers


@pytest.mark.parametrize("dtype", FLOATS)
def test_dropout_scales_what_it_keeps(dtype: torch.dtype) -> None:
    values = torch.rand(COUNT, dtype=dtype, device="neuron") + 1
    torch.manual_seed(SEED)
    out, mask = torch.native_dropout(values, 0.25, True)
    kept = torch.from_numpy(reference.narrow(SEED, 0, COUNT) < round(0.75 * 2**32))
    assert torch.equal(mask.cpu(), kept)
    expected = values.cpu().mul(kept).mul_(1 / 0.75)
    torch.testing.assert_close(out.cpu(), expected)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_dropout_mask_does_not_depend_on_the_layout(layout: torch.memory_format) -> None:
    values = torch.ones(2, 3, 5, 7, device="neuron").to(memory_format=layout)
    torch.manual_seed(SEED)
    out, mask = torch.native_dropout(values, 0.5, True)
    assert out.stride() == mask.stride() == values.stride()
    expected = reference.narrow(SEED, 0, values.numel()) < 2**31
    np.testing.assert_array_equal(mask.cpu().numpy().reshape(-1), expected)


def test_dropout_of_everything_is_zero() -> None:
    out, mask = torch.native_dropout(torch.ones(100, device="neuron"), 1.0, True)
    assert not mask.any()
    assert not out.any()


def test_dropout_outside_training_copies() -> None:
    values = torch.rand(10, device="neuron")
    offset = torch.neuron.default_generators[0].get_offset()
    out, mask = torch.native_dropout(values, 0.5, False)
    assert torch.equal(out, values)
    assert out.data_ptr() != values.data_ptr()
    assert bool(mask.all())
    assert torch.neuron.default_generators[0].get_offset() == offset


def test_dropout_of_complex_numbers() -> None:
    out, mask = torch.native_dropout(full(1.0, 100, dtype=torch.complex64), 0.5, True)
    assert torch.equal(out, mask * 2.0 * torch.ones_like(out))


def test_dropout_gradient_goes_through_the_mask() -> None:
    values = torch.ones(1000, device="neuron", requires_grad=True)
    out = torch.nn.functional.dropout(values, 0.2)
    out.sum().backward()
    assert torch.equal(values.grad, out.detach())


@pytest.mark.parametrize("dtype", FLOATS)
def test_rrelu_scales_what_is_not_positive(dtype: torch.dtype) -> None:
    values = torch.linspace(-1, 1, 1001, dtype=dtype, device="neuron")
    noise = torch.empty_like(values)
    out = torch.ops.aten.rrelu_with_noise(values, noise, 0.1, 0.4, True)
    positive = values > 0
    assert bool((noise[positive] == 1).all())
    slopes = numbers(noise[~positive])
    assert 0.0995 < slopes.min() < 0.11
    assert 0.39 < slopes.max() < 0.402
    torch.testing.assert_close(out, values * noise)


def test_rrelu_gradient_is_the_slope() -> None:
    values = torch.linspace(-1, -0.1, 100, device="neuron", requires_grad=True)
    out = torch.rrelu(values, 0.1, 0.4, training=True)
    out.sum().backward()
    torch.testing.assert_close(values.grad, (out / values).detach())
