"""A program draws the numbers that the eager kernels draw from the same generator state."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from torch_trainium.eager import calls

aten = torch.ops.aten
SEED, OFFSET = 0x1234_5678_9ABC_DEF0, (1 << 33) - 8
FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]

CONTINUOUS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "normal": (aten.normal_.default, (0.5, 2.0)),
    "log_normal": (aten.log_normal_.default, (0.1, 0.5)),
    "exponential": (aten.exponential_.default, (1.5,)),
    "cauchy": (aten.cauchy_.default, (0.1, 2.0)),
}
EXACT: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "uniform": (aten.uniform_.default, (-0.3, 0.7)),
    "unit": (aten.uniform_.default, ()),
    "random": (aten.random_.default, ()),
    "to": (aten.random_.to, (100,)),
    "from": (getattr(aten.random_, "from"), (5, 120)),
    "bernoulli": (aten.bernoulli_.float, (0.3,)),
    "never": (aten.bernoulli_.float, (0.0,)),
    "always": (aten.bernoulli_.float, (1.0,)),
    "geometric": (aten.geometric_.default, (0.2,)),
}


@pytest.fixture(autouse=True)
def cpu_programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(calls, "numbers_on_cpu", False)
    monkeypatch.setattr(calls, "reserve_random", lambda *_: (SEED, OFFSET))
    yield


def generator() -> torch.Generator:
    made = torch.Generator("neuron")
    state = SEED.to_bytes(8, "little") + OFFSET.to_bytes(8, "little")
    made.set_state(torch.tensor(list(state), dtype=torch.uint8))
    return made


def both(overload: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """What eager mode gives on a neuron device, and a program on the CPU."""
    on_device = torch.utils._pytree.tree_map(
        lambda a: a.to("neuron") if isinstance(a, torch.Tensor) else a, args
    )
    eager = overload(*on_device, **kwargs, generator=generator())
    return eager.cpu(), calls.call(overload, *args, **kwargs)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_numbers_are_those_of_eager_mode(name: str, dtype: torch.dtype) -> None:
    overload, args = CONTINUOUS[name]
    eager, compiled = both(overload, torch.empty(7, 101, dtype=dtype), *args)
    torch.testing.assert_close(compiled, eager)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.uint8], ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_discrete_numbers_are_exactly_those_of_eager_mode(name: str, dtype: torch.dtype) -> None:
    overload, args = EXACT[name]
    if overload is aten.uniform_.default and not dtype.is_floating_point:
        pytest.skip("no such numbers")
    eager, compiled = both(overload, torch.empty(1003, dtype=dtype), *args)
    assert torch.equal(compiled, eager)


@pytest.mark.parametrize("bounds", [(-(1 << 63), None), (-5, 1 << 40), (0, (1 << 63) - 1)])
def test_wide_ranges_are_exactly_those_of_eager_mode(bounds: tuple[int, int | None]) -> None:
    overload = getattr(aten.random_, "from")
    eager, compiled = both(overload, torch.empty(1003, dtype=torch.int64), *bounds)
    assert torch.equal(compiled, eager)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_bernoulli_of_a_tensor(dtype: torch.dtype) -> None:
    p = torch.linspace(0, 1, 1001).to(dtype)
    eager, compiled = both(aten.bernoulli_.Tensor, torch.empty(1001), p)
    assert torch.equal(compiled, eager)


def test_permutation() -> None:
    eager = torch.randperm(1000, device="neuron", generator=generator())
    compiled = calls.call(aten.randperm.default, 1000)
    assert torch.equal(compiled, eager.cpu())


@pytest.mark.parametrize(("draws", "replacement"), [(1, False), (4, False), (50, True)])
def test_multinomial(draws: int, replacement: bool) -> None:
    weights = torch.rand(6, 40, generator=torch.Generator().manual_seed(0))
    eager, compiled = both(aten.multinomial.default, weights, draws, replacement)
    assert torch.equal(compiled, eager)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rrelu(dtype: torch.dtype) -> None:
    a, noise = torch.linspace(-1, 1, 500).to(dtype), torch.zeros(500, dtype=dtype)
    noise_on_device = noise.to("neuron")
    eager = aten.rrelu_with_noise.default(
        a.to("neuron"), noise_on_device, 0.1, 0.3, True, generator()
    )
    compiled = calls.call(aten.rrelu_with_noise.default, a, noise, 0.1, 0.3, True)
    assert torch.equal(compiled, eager.cpu())
    assert torch.equal(noise, noise_on_device.cpu())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
def test_dropout(dtype: torch.dtype, p: float) -> None:
    a = torch.linspace(-1, 1, 500).to(dtype)
    default = torch.neuron.default_generators[0]
    before = default.get_state()
    default.set_state(generator().get_state())
    eager = aten.native_dropout.default(a.to("neuron"), p, True)
    default.set_state(before)
    compiled = calls.call(aten.native_dropout.default, a, p, True)
    for left, right in zip(compiled, eager, strict=True):
        assert torch.equal(left, right.cpu())


def test_numbers_that_no_distribution_has_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"std >= 0\.0, but found std -1"):
        calls.call(aten.normal_.default, torch.empty(4), 0.0, -1.0)
    with pytest.raises(RuntimeError, match=r"p to be in \[0, 1\], but got p=2"):
        calls.call(aten.bernoulli_.float, torch.empty(4), 2.0)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_poisson(dtype: torch.dtype) -> None:
    rates = torch.tensor([0.0, 0.01, 0.5, 3.0, 9.99, 10.0, 25.0, 300.0, 6e4]).repeat(200).to(dtype)
    eager, compiled = both(aten.poisson.default, rates)
    assert torch.equal(compiled, eager)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_binomial(dtype: torch.dtype) -> None:
    counts = torch.tensor([0.0, 1.0, 7.0, 30.0, 200.0, 1000.0])[:, None].repeat(50, 1).to(dtype)
    p = torch.tensor([0.0, 0.02, 0.3, 0.5, 0.8, 0.99, 1.0, math.nan]).to(dtype)
    eager, compiled = both(aten.binomial.default, counts, p)
    torch.testing.assert_close(compiled, eager, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gamma(dtype: torch.dtype) -> None:
    alpha = torch.tensor([0.0, 0.01, 0.3, 1.0, 2.5, 40.0, 1e4]).repeat(300).to(dtype)
    eager, compiled = both(aten._standard_gamma.default, alpha)
    torch.testing.assert_close(compiled, eager)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_dirichlet(dtype: torch.dtype) -> None:
    alpha = torch.tensor([0.1, 1.0, 3.0, 20.0]).repeat(100, 1).to(dtype)
    eager, compiled = both(aten._sample_dirichlet.default, alpha)
    torch.testing.assert_close(compiled, eager)


def test_parameters_that_no_distribution_has_are_refused() -> None:
    with pytest.raises(RuntimeError, match="expected rate to be non-negative"):
        calls.call(aten.poisson.default, torch.tensor([1.0, -1.0]))
