"""Generators: seeds, states, forks, and the distributions of what they draw."""

import math

import pytest
import torch

COUNT = 100_000


def _module(device: str):
    return torch.get_device_module(device)


def test_seeds_repeat(device: str) -> None:
    torch.manual_seed(5)
    first = torch.rand(100, device=device)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(100, device=device).cpu(), first.cpu())
    assert not torch.equal(torch.rand(100, device=device).cpu(), first.cpu())
    assert _module(device).initial_seed() == 5


def test_state_is_sixteen_bytes_and_restores(device: str) -> None:
    state = _module(device).get_rng_state()
    assert state.dtype == torch.uint8
    assert state.device.type == "cpu"
    assert state.numel() == 16
    first = torch.randn(50, device=device)
    _module(device).set_rng_state(state)
    assert torch.equal(torch.randn(50, device=device).cpu(), first.cpu())


def test_generators_are_independent(device: str) -> None:
    one = torch.Generator(device).manual_seed(1)
    two = torch.Generator(device).manual_seed(1)
    torch.rand(10, device=device)
    first = torch.rand(10, device=device, generator=one)
    assert torch.equal(first.cpu(), torch.rand(10, device=device, generator=two).cpu())
    assert one.device.type == device
    assert one.initial_seed() == 1
    two.set_state(one.get_state())
    first = torch.rand(10, device=device, generator=one)
    assert torch.equal(first.cpu(), torch.rand(10, device=device, generator=two).cpu())


def test_a_generator_of_another_device_is_refused(device: str) -> None:
    with pytest.raises(RuntimeError, match=r"generator|device"):
        torch.rand(2, device=device, generator=torch.Generator())
    with pytest.raises(RuntimeError, match=r"generator|device"):
        torch.rand(2, generator=torch.Generator(device))


def test_fork_rng_restores_every_device(device: str) -> None:
    torch.manual_seed(1)
    expected = [torch.rand(5, device=f"{device}:{i}").cpu() for i in (0, 1)]
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=[0, 1]):
        torch.rand(5, device=device)
        torch.rand(5, device=f"{device}:1")
    actual = [torch.rand(5, device=f"{device}:{i}").cpu() for i in (0, 1)]
    assert all(map(torch.equal, actual, expected))


def test_cpu_numbers_are_left_alone(device: str) -> None:
    torch.manual_seed(1)
    expected = torch.rand(5)
    torch.manual_seed(1)
    torch.rand(5, device=device)
    assert torch.equal(torch.rand(5), expected)


def test_default_generators_by_index(device: str) -> None:
    generators = _module(device).default_generators
    assert len(generators) == torch.accelerator.device_count()
    generators[1].manual_seed(3)
    first = torch.rand(4, device=f"{device}:1").cpu()
    second = torch.rand(4, device=f"{device}:1", generator=generators[1].manual_seed(3)).cpu()
    assert torch.equal(first, second)


def _kolmogorov_smirnov(values: torch.Tensor, cdf: torch.Tensor) -> float:
    """The largest gap between the empirical distribution and `cdf` of the sorted values."""
    steps = torch.arange(1, len(values) + 1, dtype=torch.float64) / len(values)
    return float(torch.maximum((steps - cdf).abs(), (steps - 1 / len(values) - cdf).abs()).max())


def _continuous(device: str, fill: str, parameters: tuple[float, ...], distribution) -> None:
    torch.manual_seed(11)
    for dtype in (torch.float32, torch.float64):
        values = torch.empty(COUNT, dtype=dtype, device=device)
        getattr(values, fill)(*parameters)
        ordered = values.cpu().double().sort().values
        # The gap of a true sample exceeds 1.95 / sqrt(n) once in a thousand.
        assert _kolmogorov_smirnov(ordered, distribution.cdf(ordered)) < 1.95 / math.sqrt(COUNT)


def test_uniform_is_uniform(device: str) -> None:
    _continuous(
        device, "uniform_", (-1, 3), torch.distributions.Uniform(-1, 3, validate_args=False)
    )


def test_normal_is_normal(device: str) -> None:
    _continuous(device, "normal_", (1, 2), torch.distributions.Normal(1, 2))


def test_exponential_is_exponential(device: str) -> None:
    _continuous(device, "exponential_", (0.5,), torch.distributions.Exponential(0.5))


def test_cauchy_is_cauchy(device: str) -> None:
    _continuous(device, "cauchy_", (0, 1), torch.distributions.Cauchy(0, 1))


def test_log_normal_is_log_normal(device: str) -> None:
    _continuous(device, "log_normal_", (0, 1), torch.distributions.LogNormal(0, 1))


def _counts_fit(values: torch.Tensor, probabilities: torch.Tensor) -> None:
    """A chi-square test of integer values at about one in a thousand."""
    counts = torch.bincount(values.cpu().long(), minlength=len(probabilities)).double()
    expected = probabilities.double() * values.numel()
    statistic = float(((counts - expected) ** 2 / expected).sum())
    freedom = len(probabilities) - 1
    assert statistic < freedom + 4 * math.sqrt(2 * freedom) + 5


def test_integers_are_uniform(device: str) -> None:
    torch.manual_seed(11)
    _counts_fit(torch.randint(0, 10, (COUNT,), device=device), torch.full((10,), 0.1))


def test_bernoulli_has_its_mean(device: str) -> None:
    torch.manual_seed(11)
    draws = torch.full((COUNT,), 0.3, device=device).bernoulli()
    _counts_fit(draws, torch.tensor([0.7, 0.3]))


def test_multinomial_follows_its_weights(device: str) -> None:
    torch.manual_seed(11)
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4])
    draws = torch.multinomial(weights.to(device), COUNT, replacement=True)
    _counts_fit(draws, weights)
    once = torch.multinomial(weights.to(device), 4, replacement=False)
    assert sorted(once.tolist()) == [0, 1, 2, 3]


def test_poisson_and_binomial_have_their_moments(device: str) -> None:
    torch.manual_seed(11)
    poisson = torch.poisson(torch.full((COUNT,), 4.0, device=device)).cpu()
    assert abs(poisson.mean() - 4) < 5 * 2 / math.sqrt(COUNT)
    assert abs(poisson.var() - 4) < 0.2
    binomial = torch.binomial(
        torch.full((COUNT,), 10.0, device=device), torch.full((COUNT,), 0.25, device=device)
    ).cpu()
    assert abs(binomial.mean() - 2.5) < 5 * 1.37 / math.sqrt(COUNT)
    assert abs(binomial.var() - 1.875) < 0.1


def test_permutations_are_permutations(device: str) -> None:
    order = torch.randperm(1000, device=device)
    assert torch.equal(order.sort().values.cpu(), torch.arange(1000))
    assert not torch.equal(order.cpu(), torch.arange(1000))


def test_dropout_keeps_its_share_and_scale(device: str) -> None:
    torch.manual_seed(11)
    values = torch.ones(COUNT, device=device, requires_grad=True)
    dropped = torch.nn.functional.dropout(values, 0.25)
    kept = dropped.detach().cpu() != 0
    _counts_fit(kept, torch.tensor([0.25, 0.75]))
    assert torch.allclose(dropped.detach().cpu()[kept], torch.tensor(1 / 0.75))
    dropped.sum().backward()
    assert torch.equal(values.grad.cpu() != 0, kept)


def test_random_layouts_draw_the_same_numbers(device: str) -> None:
    torch.manual_seed(2)
    contiguous = torch.empty(4, 6, device=device).normal_()
    torch.manual_seed(2)
    again = torch.empty(4, 6, device=device).normal_()
    assert torch.equal(contiguous.cpu(), again.cpu())
    assert torch.empty(6, 4, device=device).t().normal_().cpu().std() > 0.3


def test_init_functions_run_on_the_device(device: str) -> None:
    weight = torch.empty(20, 30, device=device)
    for fill in ("xavier_uniform_", "kaiming_normal_", "orthogonal_", "trunc_normal_"):
        getattr(torch.nn.init, fill)(weight)
        assert torch.isfinite(weight).all()
        assert weight.std().item() > 0
