"""How random operators use the generator's stream, whatever they draw."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.random_samples import SEED, empty, full, probabilities, seeded

# Every operator that takes a generator, on `n` elements.
OPERATORS: dict[str, Callable[[int, torch.Generator | None], torch.Tensor]] = {
    "uniform_": lambda n, g: empty(n).uniform_(generator=g),
    "normal_": lambda n, g: empty(n).normal_(generator=g),
    "log_normal_": lambda n, g: empty(n).log_normal_(generator=g),
    "exponential_": lambda n, g: empty(n).exponential_(generator=g),
    "cauchy_": lambda n, g: empty(n).cauchy_(generator=g),
    "geometric_": lambda n, g: empty(n).geometric_(0.3, generator=g),
    "random_": lambda n, g: empty(n).random_(generator=g),
    "random_.to": lambda n, g: empty(n).random_(100, generator=g),
    "random_.from": lambda n, g: empty(n, dtype=torch.int64).random_(-5, 2**40, generator=g),
    "bernoulli_.float": lambda n, g: empty(n).bernoulli_(0.3, generator=g),
    "bernoulli_.Tensor": lambda n, g: empty(n).bernoulli_(probabilities(n), generator=g),
    "bernoulli": lambda n, g: torch.bernoulli(probabilities(n), generator=g),
    "bernoulli.p": lambda n, g: torch.bernoulli(empty(n), 0.3, generator=g),
    "bernoulli.out": lambda n, g: torch.bernoulli(probabilities(n), generator=g, out=empty(n)),
    "normal.Tensor_float": lambda n, g: torch.normal(probabilities(n), 2.0, generator=g),
    "normal.float_Tensor": lambda n, g: torch.normal(1.0, probabilities(n), generator=g),
    "normal.Tensor_Tensor": lambda n, g: torch.normal(
        probabilities(n), probabilities(n), generator=g
    ),
    "normal.float_float": lambda n, g: torch.normal(0.0, 1.0, (n,), generator=g, device="neuron"),
    "normal.out": lambda n, g: torch.normal(probabilities(n), 2.0, generator=g, out=empty(n)),
    "rand": lambda n, g: torch.rand(n, generator=g, device="neuron"),
    "rand_like": lambda n, g: torch.rand_like(empty(n), generator=g),
    "randn": lambda n, g: torch.randn(n, generator=g, device="neuron"),
    "randn_like": lambda n, g: torch.randn_like(empty(n), generator=g),
    "randint": lambda n, g: torch.randint(3, 9, (n,), generator=g, device="neuron"),
    "randint_like": lambda n, g: torch.randint_like(empty(n), 9, generator=g),
    "randperm": lambda n, g: torch.randperm(n, generator=g, device="neuron"),
    "multinomial": lambda n, g: torch.multinomial(probabilities(n), n, generator=g),
    "multinomial with replacement": lambda n, g: torch.multinomial(
        probabilities(7), n, True, generator=g
    ),
    "poisson": lambda n, g: torch.poisson(full(12.0, n), generator=g),
    "binomial": lambda n, g: torch.binomial(full(40.0, n), probabilities(n), generator=g),
    "_standard_gamma": lambda n, g: torch._standard_gamma(full(0.7, n), generator=g),
    "_sample_dirichlet": lambda n, g: torch._sample_dirichlet(full(0.7, n), generator=g),
    "rrelu": lambda n, g: torch.rrelu(full(-1.0, n), training=True, generator=g),
    "rrelu_": lambda n, g: torch.rrelu_(full(-1.0, n), training=True, generator=g),
}

every_operator = pytest.mark.parametrize("name", OPERATORS)


@every_operator
def test_same_state_gives_the_same_numbers(name: str) -> None:
    draw = OPERATORS[name]
    generator = seeded()
    first = draw(50, generator)
    second = draw(50, generator)
    assert torch.equal(draw(50, seeded()), first)
    assert not torch.equal(first, second)


@every_operator
def test_offset_advances_by_one_per_element(name: str) -> None:
    generator = seeded()
    OPERATORS[name](50, generator)
    assert generator.get_offset() == 52


@every_operator
def test_default_generator_is_used_without_another(name: str) -> None:
    torch.neuron.manual_seed(SEED)
    drawn = OPERATORS[name](50, None)
    assert torch.equal(drawn, OPERATORS[name](50, seeded()))
    assert torch.neuron.default_generators[0].get_offset() == 52


@every_operator
def test_generator_of_the_cpu_is_refused(name: str) -> None:
    message = "Expected a 'neuron' device type for generator but found 'cpu'"
    with pytest.raises(RuntimeError, match=message):
        OPERATORS[name](50, torch.Generator("cpu"))


@every_operator
def test_numbers_do_not_depend_on_the_thread_count(name: str) -> None:
    threads = torch.get_num_threads()
    drawn = []
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            drawn.append(OPERATORS[name](100_003, seeded()))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[0], drawn[2])


def test_a_tensor_is_a_prefix_of_a_larger_one() -> None:
    long = torch.randn(1000, generator=seeded(), device="neuron")
    short = torch.randn(333, generator=seeded(), device="neuron")
    assert torch.equal(short, long[:333])


def test_shards_drawn_at_their_offsets_make_the_whole() -> None:
    whole = torch.randn(64, generator=seeded(), device="neuron")
    generator = seeded()
    shards = []
    for start in range(0, 64, 16):
        generator.set_offset(start)
        shards.append(torch.randn(16, generator=generator, device="neuron"))
    assert torch.equal(torch.cat(shards), whole)


IN_PLACE: dict[str, Callable[[torch.Tensor, torch.Generator], Any]] = {
    "uniform_": lambda t, g: t.uniform_(generator=g),
    "normal_": lambda t, g: t.normal_(generator=g),
    "random_": lambda t, g: t.random_(0, 200, generator=g),
    "bernoulli_": lambda t, g: t.bernoulli_(0.4, generator=g),
    "exponential_": lambda t, g: t.exponential_(generator=g),
}


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(
    "layout",
    [
        lambda t: t.contiguous(memory_format=torch.channels_last),
        lambda t: t.transpose(0, 3).contiguous().transpose(0, 3),
        lambda t: torch.cat([t, t], dim=3)[:, :, :, ::2],
    ],
    ids=["channels_last", "transposed", "strided"],
)
def test_numbers_do_not_depend_on_the_layout(
    name: str, dtype: torch.dtype, layout: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    expected = torch.zeros(3, 5, 7, 11, dtype=dtype, device="neuron")
    other = layout(expected)
    assert other.stride() != expected.stride()
    IN_PLACE[name](expected, seeded())
    IN_PLACE[name](other, seeded())
    assert torch.equal(other, expected)


def test_only_the_view_is_written() -> None:
    base = torch.zeros(40, 2, device="neuron")
    base[:, 1].uniform_(1, 2)
    assert bool((base[:, 0] == 0).all())
    assert bool((base[:, 1] >= 1).all())


@pytest.mark.parametrize("name", IN_PLACE)
def test_overlapping_elements_are_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        IN_PLACE[name](empty(1).expand(3), seeded())


@pytest.mark.parametrize("name", IN_PLACE)
def test_an_empty_tensor_draws_nothing(name: str) -> None:
    generator = seeded()
    IN_PLACE[name](empty(0, 3), generator)
    assert generator.get_offset() == 0


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_scalar_draws_its_first_element(name: str) -> None:
    scalar, vector = empty(()), empty(9)
    IN_PLACE[name](scalar, seeded())
    IN_PLACE[name](vector, seeded())
    assert torch.equal(scalar, vector[0])


def test_operators_are_counted() -> None:
    torch.neuron.reset_executed_ops()
    empty(3).uniform_()
    torch.native_dropout(torch.ones(3, device="neuron"), 0.5, True)
    counts = torch.neuron.executed_ops()
    assert counts["aten::uniform_"] == counts["aten::native_dropout"] == 1
