"""The numbers themselves, against the definitions of docs/random.md computed with NumPy."""

import numpy as np
import torch

from tests import threefry_reference as reference
from tests.random_samples import SEED, empty, full, seeded


def test_normal_is_box_muller_on_pairs() -> None:
    drawn = torch.randn(1001, generator=seeded(), device="neuron").cpu().numpy()
    expected = reference.normal(reference.narrow(SEED, 0, 1002))[:1001]
    np.testing.assert_allclose(drawn, expected, rtol=3e-7, atol=1e-7)


def test_double_normal_is_box_muller_on_pairs() -> None:
    drawn = torch.randn(999, generator=seeded(), device="neuron", dtype=torch.float64)
    words = reference.wide(SEED, 0, 1000)
    unit = ((words[0::2] >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    angle = 2 * np.pi * (words[1::2] >> np.uint64(11)).astype(np.float64) * 2.0**-53
    radius = np.sqrt(-2 * np.log(unit))
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    np.testing.assert_allclose(drawn.cpu().numpy(), pairs.reshape(-1)[:999], rtol=1e-13, atol=1e-15)


def test_half_precision_rounds_the_float_numbers() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        drawn = torch.randn(1000, generator=seeded(), device="neuron", dtype=dtype)
        expected = torch.randn(1000, generator=seeded(), device="neuron").to(dtype)
        assert torch.equal(drawn, expected)


def test_complex_normal_is_a_pair_with_half_the_variance() -> None:
    drawn = torch.randn(100, generator=seeded(), device="neuron", dtype=torch.complex64)
    expected = torch.empty(100, 2, device="neuron").normal_(0, 0.5**0.5, generator=seeded())
    assert torch.equal(torch.view_as_real(drawn), expected)


def test_exponential_is_the_logarithm_of_a_word() -> None:
    drawn = empty(1000).exponential_(2.0, generator=seeded()).cpu().numpy()
    expected = -np.log(reference.open_unit(reference.narrow(SEED, 0, 1000))) / 2
    np.testing.assert_allclose(drawn, expected, rtol=2e-7)


def test_integers_are_the_high_part_of_a_product() -> None:
    drawn = empty(1000, dtype=torch.int64).random_(-3, 1000, generator=seeded())
    words = reference.narrow(SEED, 0, 1000).astype(np.uint64)
    expected = (words * np.uint64(1003) >> np.uint64(32)).astype(np.int64) - 3
    np.testing.assert_array_equal(drawn.cpu().numpy(), expected)


def test_wide_ranges_use_64_bits() -> None:
    drawn = empty(500, dtype=torch.int64).random_(-(2**60), 3 * 2**60, generator=seeded())
    expected = [int(w) * 2**62 // 2**64 - 2**60 for w in reference.wide(SEED, 0, 500)]
    assert drawn.tolist() == expected


def test_bernoulli_compares_a_word_with_the_probability() -> None:
    drawn = empty(1000).bernoulli_(0.3, generator=seeded())
    expected = reference.narrow(SEED, 0, 1000) < round(0.3 * 2**32)
    np.testing.assert_array_equal(drawn.cpu().numpy(), expected)


def test_bernoulli_of_a_tensor_agrees_with_bernoulli_of_a_number() -> None:
    of_tensor = empty(1000).bernoulli_(full(0.3, 1000, dtype=torch.float64), generator=seeded())
    of_number = empty(1000).bernoulli_(0.3, generator=seeded())
    assert torch.equal(of_tensor, of_number)


def test_permutation_orders_the_wide_words() -> None:
    drawn = torch.randperm(5000, generator=seeded(), device="neuron")
    expected = np.argsort(reference.wide(SEED, 0, 5000), kind="stable")
    np.testing.assert_array_equal(drawn.cpu().numpy(), expected)


def test_small_poisson_multiplies_the_words_of_the_substream() -> None:
    drawn = torch.poisson(full(0.8, 300), generator=seeded()).tolist()
    rate = float(np.float32(0.8))
    for element, count in enumerate(drawn):
        words = reference.substream(SEED, element, 20)
        unit = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
        assert count == np.argmax(np.cumprod(unit) <= np.exp(-rate))
