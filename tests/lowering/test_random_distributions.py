"""Compiled random operators on the device: their distributions, and what a seed decides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from scipy import stats

from tests.random_samples import (
    COUNT,
    SEED,
    assert_follows,
    assert_frequencies,
    empty,
    full,
    numbers,
    seeded,
)
from torch_trainium.eager import eager_mode_is, fallback_is
from torch_trainium.neuron.cpu_fallbacks import native_means_expressible

Draw = Callable[[torch.Generator], torch.Tensor]

WEIGHTS = (1.0, 4.0, 0.0, 3.0)

CONTINUOUS: dict[str, tuple[Draw, Any]] = {
    "uniform_": (lambda g: empty(COUNT).uniform_(-1, 2, generator=g), stats.uniform(-1, 3)),
    "rand": (lambda g: torch.rand(COUNT, device="neuron", generator=g), stats.uniform()),
    "randn": (lambda g: torch.randn(COUNT, device="neuron", generator=g), stats.norm()),
    "normal_": (lambda g: empty(COUNT).normal_(0.5, 2, generator=g), stats.norm(0.5, 2)),
    "normal of means": (
        lambda g: torch.normal(full(0.5, COUNT), 2.0, generator=g),
        stats.norm(0.5, 2),
    ),
    "normal of deviations": (
        lambda g: torch.normal(0.5, full(2.0, COUNT), generator=g),
        stats.norm(0.5, 2),
    ),
    "normal of both": (
        lambda g: torch.normal(full(0.5, COUNT), full(2.0, COUNT), generator=g),
        stats.norm(0.5, 2),
    ),
    "log_normal_": (
        lambda g: empty(COUNT).log_normal_(0.1, 0.5, generator=g),
        stats.lognorm(0.5, scale=math.exp(0.1)),
    ),
    "exponential_": (
        lambda g: empty(COUNT).exponential_(1.5, generator=g),
        stats.expon(scale=1 / 1.5),
    ),
    "cauchy_": (lambda g: empty(COUNT).cauchy_(0.1, 2, generator=g), stats.cauchy(0.1, 2)),
    "gamma": (lambda g: torch._standard_gamma(full(2.5, COUNT), generator=g), stats.gamma(2.5)),
    "gamma below 1": (
        lambda g: torch._standard_gamma(full(0.3, COUNT), generator=g),
        stats.gamma(0.3),
    ),
    "dirichlet": (
        lambda g: torch._sample_dirichlet(full(2.0, COUNT, 3), generator=g)[:, 0],
        stats.beta(2, 4),
    ),
}
DISCRETE: dict[str, tuple[Draw, Any]] = {
    "geometric_": (lambda g: empty(COUNT).geometric_(0.2, generator=g), stats.geom(0.2)),
    "bernoulli": (lambda g: torch.bernoulli(full(0.3, COUNT), generator=g), stats.bernoulli(0.3)),
    "bernoulli_": (lambda g: empty(COUNT).bernoulli_(0.3, generator=g), stats.bernoulli(0.3)),
    "randint": (
        lambda g: torch.randint(5, 30, (COUNT,), device="neuron", generator=g),
        stats.randint(5, 30),
    ),
    "random_": (lambda g: empty(COUNT).random_(0, 20, generator=g), stats.randint(0, 20)),
    "poisson": (lambda g: torch.poisson(full(3.0, COUNT), generator=g), stats.poisson(3)),
    "poisson of a high rate": (
        lambda g: torch.poisson(full(40.0, COUNT), generator=g),
        stats.poisson(40),
    ),
    "binomial": (
        lambda g: torch.binomial(full(12.0, COUNT), full(0.3, COUNT), generator=g),
        stats.binom(12, 0.3),
    ),
    "binomial of many": (
        lambda g: torch.binomial(full(100.0, COUNT), full(0.7, COUNT), generator=g),
        stats.binom(100, 0.7),
    ),
    "multinomial": (
        lambda g: torch.tensor(WEIGHTS).to("neuron").multinomial(COUNT, True, generator=g),
        stats.rv_discrete(values=(range(4), [w / sum(WEIGHTS) for w in WEIGHTS])),
    ),
}
CHOICES: dict[str, Draw] = {
    "randperm": lambda g: torch.randperm(1000, device="neuron", generator=g),
    "multinomial without replacement": lambda g: full(1.0, 40, 50).multinomial(
        20, False, generator=g
    ),
    "multinomial of float64": lambda g: full(1.0, 40, 50, dtype=torch.float64).multinomial(
        20, False, generator=g
    ),
}


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    with eager_mode_is("compiled"), native_means_expressible(), fallback_is("error"):
        yield


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_numbers_follow_their_distribution(name: str) -> None:
    draw, distribution = CONTINUOUS[name]
    assert_follows(numbers(draw(seeded())), distribution)


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_numbers_have_their_frequencies(name: str) -> None:
    draw, distribution = DISCRETE[name]
    assert_frequencies(numbers(draw(seeded())), distribution)


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE, *CHOICES])
def test_a_seed_gives_the_same_numbers_again_and_another_seed_others(name: str) -> None:
    draw = _draw(name)
    first, again, other = draw(seeded()), draw(seeded()), draw(seeded(SEED + 1))
    assert torch.equal(first.cpu(), again.cpu())
    assert not torch.equal(first.cpu(), other.cpu())


@pytest.mark.parametrize("name", [*DISCRETE, *CHOICES])
def test_choices_are_those_of_host_eager(name: str) -> None:
    ours = _draw(name)(seeded()).cpu()
    with eager_mode_is("host"):
        theirs = _draw(name)(seeded()).cpu()
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_numbers_are_those_of_host_eager(name: str) -> None:
    ours = _draw(name)(seeded()).cpu()
    with eager_mode_is("host"):
        theirs = _draw(name)(seeded()).cpu()
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", ["uniform_", "rand"])
def test_uniform_numbers_are_exactly_those_of_host_eager(name: str) -> None:
    ours = _draw(name)(seeded()).cpu()
    with eager_mode_is("host"):
        theirs = _draw(name)(seeded()).cpu()
    assert torch.equal(ours, theirs)


def test_a_generator_goes_on_where_it_was() -> None:
    generator = seeded()
    first = torch.rand(10, device="neuron", generator=generator)
    second = torch.rand(10, device="neuron", generator=generator)
    assert not torch.equal(first.cpu(), second.cpu())
    with eager_mode_is("host"):
        third = torch.rand(10, device="neuron", generator=generator).cpu()
        reference = seeded()
        for _ in range(2):
            torch.rand(10, device="neuron", generator=reference)
        assert torch.equal(third, torch.rand(10, device="neuron", generator=reference).cpu())


def _draw(name: str) -> Draw:
    return CHOICES[name] if name in CHOICES else {**CONTINUOUS, **DISCRETE}[name][0]
