"""Random operators follow their distributions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from tests.random_samples import (
    COUNT,
    FLOATS,
    INTEGERS,
    assert_follows,
    assert_frequencies,
    empty,
    full,
    numbers,
    seeded,
)

CONTINUOUS: dict[str, tuple[Callable[[torch.Tensor, torch.Generator], torch.Tensor], Any]] = {
    "uniform": (lambda t, g: t.uniform_(-2, 3, generator=g), stats.uniform(-2, 5)),
    "normal": (lambda t, g: t.normal_(1, 2, generator=g), stats.norm(1, 2)),
    "log_normal": (
        lambda t, g: t.log_normal_(0.5, 0.7, generator=g),
        stats.lognorm(0.7, scale=np.exp(0.5)),
    ),
    "exponential": (lambda t, g: t.exponential_(1.5, generator=g), stats.expon(scale=1 / 1.5)),
    "cauchy": (lambda t, g: t.cauchy_(1, 0.5, generator=g), stats.cauchy(1, 0.5)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distribution(name: str, dtype: torch.dtype) -> None:
    draw, distribution = CONTINUOUS[name]
    samples = numbers(draw(empty(COUNT, dtype=dtype), seeded()))
    assert_follows(samples, distribution)
    assert len(np.unique(samples)) > 0.99 * COUNT


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_half_precision_distribution(name: str, dtype: torch.dtype) -> None:
    draw, distribution = CONTINUOUS[name]
    samples = numbers(draw(empty(COUNT, dtype=dtype), seeded()))
    # Rounding moves a number by at most 2^-9 of itself, so compare at the rounded quantiles.
    quantiles = distribution.ppf([0.1, 0.25, 0.5, 0.75, 0.9])
    for quantile, share in zip(quantiles, [0.1, 0.25, 0.5, 0.75, 0.9], strict=True):
        margin = abs(quantile) * 2**-8
        below = (samples < quantile - margin).mean()
        at_most = (samples <= quantile + margin).mean()
        assert below - 0.01 < share < at_most + 0.01


@pytest.mark.parametrize("alpha", [0.3, 1.0, 4.5, 200.0])
def test_gamma_distribution(alpha: float) -> None:
    samples = torch._standard_gamma(full(alpha, COUNT, dtype=torch.float64), generator=seeded())
    assert_follows(numbers(samples), stats.gamma(alpha))


def test_dirichlet_distribution() -> None:
    alpha = torch.tensor([0.5, 1.0, 3.5], device="neuron").expand(COUNT, 3)
    samples = numbers(torch._sample_dirichlet(alpha, generator=seeded()))
    np.testing.assert_allclose(samples.sum(1), 1, rtol=1e-6)
    for column, value in enumerate([0.5, 1.0, 3.5]):
        assert_follows(samples[:, column], stats.beta(value, 5.0 - value))


@pytest.mark.parametrize("rate", [0.2, 3.0, 9.9, 10.0, 35.0, 4000.0])
def test_poisson_distribution(rate: float) -> None:
    samples = torch.poisson(full(rate, COUNT, dtype=torch.float64), generator=seeded())
    assert_frequencies(numbers(samples), stats.poisson(rate))


@pytest.mark.parametrize(("count", "p"), [(5, 0.3), (40, 0.1), (40, 0.9), (1000, 0.5)])
def test_binomial_distribution(count: int, p: float) -> None:
    counts = full(count, COUNT, dtype=torch.float64)
    samples = torch.binomial(counts, full(p, COUNT, dtype=torch.float64), generator=seeded())
    assert_frequencies(numbers(samples), stats.binom(count, p))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("p", [0.3, 0.9])
def test_geometric_distribution(dtype: torch.dtype, p: float) -> None:
    samples = empty(COUNT, dtype=dtype).geometric_(p, generator=seeded())
    assert_frequencies(numbers(samples), stats.geom(p))


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *FLOATS])
def test_bernoulli_distribution(dtype: torch.dtype) -> None:
    samples = numbers(empty(COUNT, dtype=dtype).bernoulli_(0.3, generator=seeded()))
    assert_frequencies(samples, stats.bernoulli(0.3))


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_random_integers_are_uniform(dtype: torch.dtype) -> None:
    samples = empty(COUNT, dtype=dtype).random_(3, 20, generator=seeded())
    assert_frequencies(numbers(samples), stats.randint(3, 20))


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
def test_random_integers_of_unsigned_types(dtype: torch.dtype) -> None:
    samples = empty(COUNT, dtype=dtype).random_(3, 20, generator=seeded()).cpu()
    assert_frequencies(samples.to(torch.int64).double().numpy(), stats.randint(3, 20))


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *FLOATS])
def test_random_without_bounds_covers_the_type(dtype: torch.dtype) -> None:
    samples = numbers(empty(COUNT, dtype=dtype).random_(generator=seeded()))
    if dtype.is_floating_point:
        top = 2.0 ** (1 - round(np.log2(torch.finfo(dtype).eps)))
    else:
        top = 1 if dtype == torch.bool else torch.iinfo(dtype).max
    assert samples.min() >= 0
    assert samples.max() <= top
    assert abs(samples.mean() / top - 0.5) < 0.01


def test_random_over_all_64_bits() -> None:
    samples = empty(COUNT, dtype=torch.int64).random_(-(2**63), None, generator=seeded())
    assert_follows(numbers(samples), stats.uniform(-(2.0**63), 2.0**64))
    lowest_bits = numbers(samples & 7)
    assert_frequencies(lowest_bits, stats.randint(0, 8))


def test_neighbours_are_uncorrelated() -> None:
    samples = numbers(torch.randn(COUNT, generator=seeded(), device="neuron"))
    for lag in (1, 2, 3):
        correlation = np.corrcoef(samples[:-lag], samples[lag:])[0, 1]
        squares = np.corrcoef(samples[:-lag] ** 2, samples[lag:] ** 2)[0, 1]
        assert abs(correlation) < 4 / COUNT**0.5
        assert abs(squares) < 4 / COUNT**0.5


def test_streams_of_neighbouring_seeds_are_uncorrelated() -> None:
    first = numbers(torch.randn(COUNT, generator=seeded(1), device="neuron"))
    second = numbers(torch.randn(COUNT, generator=seeded(2), device="neuron"))
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / COUNT**0.5
