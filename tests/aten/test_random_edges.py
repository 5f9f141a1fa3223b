"""Bounds, certain events, special parameters; permutations and multinomial draws."""

import numpy as np
import pytest
import torch
from scipy import stats

from tests.random_samples import COUNT, FLOATS, INTEGERS, SIGNIFICANCE, empty, full, numbers, seeded


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 0), (100, 101), (-3, 1e4), (0.1, 0.2)])
def test_uniform_never_returns_its_upper_bound(dtype: torch.dtype, low: float, high: float) -> None:
    samples = numbers(empty(1_000_000, dtype=dtype).uniform_(low, high, generator=seeded()))
    lowest = numbers(torch.tensor(low, dtype=dtype))
    assert samples.max() < high
    assert samples.min() >= lowest


def test_uniform_between_equal_bounds_returns_them() -> None:
    assert bool((empty(100).uniform_(2.5, 2.5) == 2.5).all())


@pytest.mark.parametrize("dtype", FLOATS)
def test_exponential_is_positive_and_finite(dtype: torch.dtype) -> None:
    samples = empty(2_000_000, dtype=dtype).exponential_(generator=seeded())
    assert bool((samples > 0).all())
    assert bool(samples.isfinite().all())


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_certain_events_are_certain(p: float) -> None:
    assert bool((empty(1_000_000).bernoulli_(p) == p).all())
    assert bool((empty(1_000_000).bernoulli_(full(p, 1_000_000)) == p).all())


def test_normal_reaches_far_out() -> None:
    samples = torch.randn(20_000_000, generator=seeded(), device="neuron").abs()
    assert 5 < float(samples.max()) < 6.8


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_permutation_holds_each_index_once(dtype: torch.dtype, count: int) -> None:
    drawn = torch.randperm(count, dtype=dtype, device="neuron")
    assert sorted(drawn.tolist()) == list(range(count))


def test_all_permutations_are_equally_likely() -> None:
    generator = seeded()
    codes = [
        int(
            torch.randperm(3, generator=generator, device="neuron")
            @ torch.tensor([9, 3, 1]).to("neuron")
        )
        for _ in range(3000)
    ]
    _, counts = np.unique(codes, return_counts=True)
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > SIGNIFICANCE


def test_poisson_of_special_rates() -> None:
    rates = torch.tensor([0.0, 1e30, float("inf")], device="neuron")
    drawn = torch.poisson(rates).cpu()
    assert drawn[0] == 0
    assert abs(drawn[1] / 1e30 - 1) < 1e-6
    assert drawn[2] == float("inf")


def test_binomial_of_special_parameters() -> None:
    count = torch.tensor([10.0, 10.0, 0.0, 10.0], device="neuron")
    prob = torch.tensor([0.0, 1.0, 0.5, float("nan")], device="neuron")
    drawn = torch.binomial(count, prob).cpu()
    assert drawn[:3].tolist() == [0, 10, 0]
    assert drawn[3].isnan()


def test_binomial_broadcasts() -> None:
    drawn = torch.binomial(full(5, 2, 1), full(1.0, 3))
    assert drawn.tolist() == [[5, 5, 5], [5, 5, 5]]


def test_bernoulli_takes_probabilities_from_the_tensor_itself() -> None:
    values = torch.tensor([[0.0, 1.0], [0.0, 1.0]], device="neuron")
    values.bernoulli_(values.t())
    assert values.tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_never_chooses_probability_zero(dtype: torch.dtype, replacement: bool) -> None:
    weights = torch.tensor([0, 2, 0, 1, 0], dtype=dtype, device="neuron").expand(500, 5)
    drawn = torch.multinomial(weights, 2, replacement, generator=seeded())
    assert set(drawn.flatten().tolist()) == {1, 3}


def test_multinomial_with_replacement_follows_the_weights() -> None:
    weights = torch.tensor([[1.0, 2, 3, 4], [4, 0, 0, 4]], device="neuron")
    drawn = torch.multinomial(weights, COUNT, True, generator=seeded()).cpu().numpy()
    first = np.bincount(drawn[0], minlength=4)
    second = np.bincount(drawn[1], minlength=4)
    assert stats.chisquare(first, COUNT * np.array([0.1, 0.2, 0.3, 0.4])).pvalue > SIGNIFICANCE
    assert stats.chisquare(second[[0, 3]]).pvalue > SIGNIFICANCE


def test_multinomial_without_replacement_follows_the_weights() -> None:
    weights = torch.tensor([1.0, 2, 3, 4], device="neuron").expand(COUNT, 4)
    drawn = torch.multinomial(weights, 4, generator=seeded()).cpu().numpy()
    assert (np.sort(drawn, axis=1) == np.arange(4)).all()
    expected = COUNT * np.array([0.1, 0.2, 0.3, 0.4])
    assert stats.chisquare(np.bincount(drawn[:, 0]), expected).pvalue > SIGNIFICANCE
