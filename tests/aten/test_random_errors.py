"""What the CPU's random operators refuse, with the same class of error."""

from collections.abc import Callable
from typing import Any

import pytest
import torch


def unary(call: Callable[[torch.Tensor], Any], *values: float) -> Callable[[str], Any]:
    return lambda device: call(torch.tensor(values, device=device))


REFUSED: dict[str, Callable[[str], Any]] = {
    "uniform_ bounds": unary(lambda t: t.uniform_(1, 0), 0),
    "uniform_ range": unary(lambda t: t.half().uniform_(-60000, 60000), 0),
    "uniform_ integers": unary(lambda t: t.int().uniform_(), 0),
    "normal_ negative std": unary(lambda t: t.normal_(0, -1), 0),
    "normal_ integers": unary(lambda t: t.long().normal_(), 0),
    "normal tensor std": unary(lambda t: torch.normal(t, t), -1),
    "normal complex std": unary(lambda t: torch.normal(0.0, t.to(torch.complex64)), 1),
    "log_normal_ std": unary(lambda t: t.log_normal_(0, 0), 0),
    "exponential_ lambda": unary(lambda t: t.exponential_(0), 0),
    "exponential_ integers": unary(lambda t: t.int().exponential_(), 0),
    "cauchy_ sigma": unary(lambda t: t.cauchy_(0, 0), 0),
    "cauchy_ integers": unary(lambda t: t.int().cauchy_(), 0),
    "geometric_ p": unary(lambda t: t.geometric_(1.0), 0),
    "geometric_ bool": unary(lambda t: t.bool().geometric_(0.5), 0),
    "random_ bounds": unary(lambda t: t.random_(3, 3), 0),
    "random_ beyond type": unary(lambda t: t.to(torch.uint8).random_(0, 257), 0),
    "random_ below type": unary(lambda t: t.to(torch.uint8).random_(-1, 5), 0),
    "random_ complex": unary(lambda t: t.to(torch.complex64).random_(), 0),
    "random_ full range of int32": unary(lambda t: t.int().random_(-(2**63), None), 0),
    "bernoulli_ p": unary(lambda t: t.bernoulli_(1.5), 0),
    "bernoulli_ tensor p": unary(lambda t: t.bernoulli_(t), 0.5, 1.5),
    "bernoulli_ nan": unary(lambda t: t.bernoulli_(t), float("nan")),
    "bernoulli_ shape": unary(lambda t: t.bernoulli_(t.repeat(2)), 0.5, 0.5),
    "bernoulli_ integer p": unary(lambda t: t.bernoulli_(t.int()), 0),
    "bernoulli_ complex": unary(lambda t: t.to(torch.complex64).bernoulli_(0.5), 0),
    "randperm negative": lambda device: torch.randperm(-1, device=device),
    "randperm uint8": lambda device: torch.randperm(300, dtype=torch.uint8, device=device),
    "randperm half": lambda device: torch.randperm(2050, dtype=torch.half, device=device),
    "randperm bool": lambda device: torch.randperm(2, dtype=torch.bool, device=device),
    "multinomial scalar": lambda device: torch.multinomial(torch.tensor(1.0, device=device), 1),
    "multinomial 3d": lambda device: torch.multinomial(torch.ones(2, 2, 2, device=device), 1),
    "multinomial none": unary(lambda t: torch.multinomial(t, 0), 1),
    "multinomial too many": unary(lambda t: torch.multinomial(t, 2), 1),
    "multinomial integers": unary(lambda t: torch.multinomial(t.int(), 1), 1),
    "multinomial no categories": lambda device: torch.multinomial(
        torch.ones(0, device=device), 1, True
    ),
    "multinomial out": unary(lambda t: torch.multinomial(t, 1, out=t.int()), 1),
    **{
        f"multinomial {values} {replacement}": unary(
            lambda t, replacement=replacement: torch.multinomial(t, 2, replacement), *values
        )
        for values in ((-1, 1), (float("nan"), 1), (float("inf"), 1), (0, 0))
        for replacement in (False, True)
    },
    "dropout p": unary(lambda t: torch.native_dropout(t, 1.5, True), 1),
    "dropout integers": unary(lambda t: torch.native_dropout(t.int(), 0.5, True), 1),
    "poisson negative": unary(torch.poisson, -1),
    "poisson nan": unary(torch.poisson, float("nan")),
    "poisson integers": unary(lambda t: torch.poisson(t.int()), 1),
    "binomial dtypes": unary(lambda t: torch.binomial(t, t.double()), 1),
    "binomial integers": unary(lambda t: torch.binomial(t.int(), t), 1),
    "binomial shapes": unary(lambda t: torch.binomial(t, t.repeat(2)[:3]), 1, 1),
    "gamma integers": unary(lambda t: torch._standard_gamma(t.int()), 1),
    "rrelu noise": unary(
        lambda t: torch.ops.aten.rrelu_with_noise(t, t.repeat(2), 0.1, 0.3, True), 1
    ),
    "rrelu bounds": unary(lambda t: torch.rrelu(-t, 0.3, 0.1, training=True), 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_cpu_refuses_is_refused(name: str) -> None:
    with pytest.raises(Exception) as of_cpu:
        REFUSED[name]("cpu")
    with pytest.raises(of_cpu.type):
        REFUSED[name]("neuron")
    assert torch.ones(3, device="neuron").tolist() == [1, 1, 1]
