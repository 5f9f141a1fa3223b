"""Random operators: their distributions, and how they use the generator's stream."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from tests import threefry_reference as reference

SEED = 20240601
COUNT = 50_000
# Fixed seeds make a test's verdict the same in every run; this is the chance that a correct
# sampler was unlucky at its seed.
SIGNIFICANCE = 1e-4

Draw = Callable[[torch.Generator], torch.Tensor]

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def seeded(seed: int = SEED) -> torch.Generator:
    return torch.Generator("neuron").manual_seed(seed)


def empty(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(*sizes, dtype=dtype, device="neuron")


def full(value: float, *sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full(sizes, value, dtype=dtype, device="neuron")


def probabilities(*sizes: int) -> torch.Tensor:
    return torch.linspace(0.1, 0.9, steps=int(np.prod(sizes))).reshape(sizes).to("neuron")


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
    "random_.from": lambda n, g: empty(n).random_(-5, 2**40, generator=g),
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
    "random_": lambda t, g: t.random_(0, 1000, generator=g),
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


# The numbers themselves, against the definitions of docs/random.md computed with NumPy.


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


# Distributions.


def numbers(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()


def assert_follows(samples: np.ndarray, distribution: Any) -> None:
    assert stats.kstest(samples, distribution.cdf).pvalue > SIGNIFICANCE


def assert_frequencies(samples: np.ndarray, distribution: Any) -> None:
    """Chi-square test of integers, values with few expected occurrences put together."""
    low, high = distribution.ppf(1e-3), distribution.ppf(1 - 1e-3)
    values = np.arange(low, high + 1)
    observed = np.array([(samples == v).sum() for v in values])
    expected = distribution.pmf(values) * samples.size
    observed = np.append(observed, samples.size - observed.sum())
    expected = np.append(expected, max(samples.size - expected.sum(), 1e-9))
    common = expected >= 5
    observed = np.append(observed[common], observed[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    if expected[-1] == 0:
        observed, expected = observed[:-1], expected[:-1]
    assert stats.chisquare(observed, expected, sum_check=False).pvalue > SIGNIFICANCE


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


# Edges.


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


# Multinomial.


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


# Dropout.


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


# Errors: what the CPU refuses is refused, with the same class of error.


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


def test_operators_are_counted() -> None:
    torch.neuron.reset_executed_ops()
    empty(3).uniform_()
    torch.native_dropout(torch.ones(3, device="neuron"), 0.5, True)
    counts = torch.neuron.executed_ops()
    assert counts["aten::uniform_"] == counts["aten::native_dropout"] == 1
