"""Random numbers: the ones that docs/random.md defines, which eager mode draws as well."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from torch_trainium.errors import LoweringError
from torch_trainium.lowering import distributions, dtypes, threefry
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.ops.sorting import digits, order_by, ordered
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Number, Operand, Scalar, Value

aten = torch.ops.aten
Parameter = Scalar | Number


# Continuous


@lower(aten.uniform)
def uniform(x: Builder, a: Value, low: Parameter, high: Parameter) -> Value:
    return _uniform(x, a.shape, a.dtype, low, high)


@lower(aten.rand, aten.rand.generator)
def rand(x: Builder, size: Sequence[int], *, dtype: torch.dtype | None) -> Value:
    return _uniform(x, size, dtype or torch.get_default_dtype(), 0.0, 1.0)


@lower(aten.rand_like, aten.rand_like.generator)
def rand_like(x: Builder, a: Value, *, dtype: torch.dtype | None) -> Value:
    return _uniform(x, a.shape, dtype or a.dtype, 0.0, 1.0)


def _uniform(
    x: Builder, shape: Sequence[int], dtype: torch.dtype, low: Parameter, high: Parameter
) -> Value:
    def real(part: torch.dtype, count: int) -> Value:
        wide = distributions.real_dtype(part)
        width = x.host_number("uniform_range", [low, high], wide)
        limit = f"below_{str(part).removeprefix('torch.')}"
        drawn = _shifted(x, distributions.unit(x, part, count) * width, x.number(low, wide))
        return x.minimum(drawn.to(part), x.host_number(limit, [high, low], wide).to(part))

    return _parts(x, shape, dtype, real)


def _shifted(x: Builder, product: Value, by: Value) -> Value:
    """A product that is not negative, rounded, plus a number.

    XLA:CPU rounds a sum of a product only once, and eager mode twice; the magnitude between the
    two, which changes nothing, keeps them apart.
    """
    return x.abs(product) + by


@lower(aten.normal_functional)
def normal(x: Builder, a: Value, mean: Parameter, std: Parameter) -> Value:
    return _normal(x, a.shape, a.dtype, mean, std)


@lower(aten.randn, aten.randn.generator)
def randn(x: Builder, size: Sequence[int], *, dtype: torch.dtype | None) -> Value:
    return _normal(x, size, dtype or torch.get_default_dtype(), 0.0, 1.0)


@lower(aten.randn_like, aten.randn_like.generator)
def randn_like(x: Builder, a: Value, *, dtype: torch.dtype | None) -> Value:
    return _normal(x, a.shape, dtype or a.dtype, 0.0, 1.0)


@lower(aten.normal.float_float)
def normal_numbers(
    x: Builder, mean: Parameter, std: Parameter, size: Sequence[int], *, dtype: torch.dtype | None
) -> Value:
    return _normal(x, size, dtype or torch.get_default_dtype(), mean, std)


@lower(aten.normal.Tensor_float)
def normal_about(x: Builder, mean: Value, std: Parameter) -> Value:
    return x.call(aten.add.Tensor, _normal(x, mean.shape, mean.dtype, 0.0, std), mean)


@lower(aten.normal.float_Tensor)
def normal_scaled(x: Builder, mean: Parameter, std: Value) -> Value:
    drawn = _normal(x, std.shape, std.dtype, 0.0, 1.0)
    _check_deviations(x, std)
    wide = dtypes.compute_dtype(std.dtype)
    center = x.number(mean, std.dtype).to(wide)
    return (center + drawn.to(wide) * std.to(wide)).to(std.dtype)


@lower(aten.normal.Tensor_Tensor)
def normal_elements(x: Builder, mean: Value, std: Value) -> Value:
    shape = x.broadcast_together(mean, std)[0].shape
    drawn = _normal(x, shape, mean.dtype, 0.0, 1.0)
    _check_deviations(x, std)
    scaled = x.call(aten.mul.Tensor, drawn, std.to(mean.dtype))
    return x.call(aten.add.Tensor, scaled, mean)


def _check_deviations(x: Builder, std: Value) -> None:
    x.check(std < 0, RuntimeError, "normal expects all elements of std >= 0.0")


def _normal(
    x: Builder, shape: Sequence[int], dtype: torch.dtype, mean: Parameter, std: Parameter
) -> Value:
    def real(part: torch.dtype, count: int) -> Value:
        wide = distributions.real_dtype(part)
        function = "deviation_of_part" if dtype.is_complex else "deviation"
        scale = x.host_number(function, [std], wide)
        return distributions.normal(x, part, count) * scale + x.number(mean, wide)

    return _parts(x, shape, dtype, real)


@lower(aten.log_normal)
def log_normal(x: Builder, a: Value, mean: Parameter, std: Parameter) -> Value:
    wide = distributions.real_dtype(a.dtype)
    drawn = distributions.normal(x, a.dtype, a.size) * x.host_number("log_deviation", [std], wide)
    return _shaped(x, x.exp(drawn + x.number(mean, wide)), a)


@lower(aten.exponential)
def exponential(x: Builder, a: Value, rate: Parameter) -> Value:
    wide = distributions.real_dtype(a.dtype)
    largest = -torch.finfo(wide).eps / 2
    logs = x.minimum(distributions.log_of_unit(x, a.dtype, a.size), largest)
    return _shaped(x, logs * x.host_number("mean_of_exponential", [rate], wide), a)


@lower(aten.cauchy)
def cauchy(x: Builder, a: Value, median: Parameter, sigma: Parameter) -> Value:
    wide = distributions.real_dtype(a.dtype)
    scale = x.host_number("cauchy_scale", [sigma], wide)
    drawn = distributions.cotangent(x, a.dtype, a.size)
    return _shaped(x, x.number(median, wide) - drawn * scale, a)


# Discrete


@lower(aten.geometric)
def geometric(x: Builder, a: Value, p: Parameter) -> Value:
    source = a.dtype if a.dtype.is_floating_point else torch.float64
    wide = distributions.real_dtype(source)
    logs = distributions.log_of_unit(x, source, a.size)
    trials = x.maximum(x.ceil(logs * x.host_number("geometric_scale", [p], wide)), 1.0)
    if a.dtype.is_floating_point:
        return _shaped(x, trials, a)
    most = torch.iinfo(a.dtype).max
    return _shaped(x, x.select(trials < float(most), trials.to(a.dtype), most), a)


@lower(aten.random)
def random(x: Builder, a: Value) -> Value:
    span = _largest(a.dtype) + 1
    return _integers(x, a.shape, a.dtype, span, 0)


@lower(aten.random.to)
def random_to(x: Builder, a: Value, to: int) -> Value:
    return random_from(x, a, 0, to)


@lower(getattr(aten.random, "from"))
def random_from(x: Builder, a: Value, low: int, to: int | None) -> Value:
    return _between(x, a.shape, a.dtype, low, to)


@lower(aten.randint, aten.randint.generator)
def randint(x: Builder, high: int, size: Sequence[int], *, dtype: torch.dtype | None) -> Value:
    return _between(x, size, _or_int64(dtype), 0, high)


@lower(aten.randint.low, aten.randint.low_generator)
def randint_low(
    x: Builder, low: int, high: int, size: Sequence[int], *, dtype: torch.dtype | None
) -> Value:
    return _between(x, size, _or_int64(dtype), low, high)


@lower(aten.randint_like, aten.randint_like.generator)
def randint_like(x: Builder, a: Value, high: int, *, dtype: torch.dtype | None) -> Value:
    return _between(x, a.shape, dtype or a.dtype, 0, high)


@lower(aten.randint_like.low_dtype, aten.randint_like.low_generator_dtype)
def randint_like_low(
    x: Builder, a: Value, low: int, high: int, *, dtype: torch.dtype | None
) -> Value:
    return _between(x, a.shape, dtype or a.dtype, low, high)


def _or_int64(dtype: torch.dtype | int | None) -> torch.dtype:
    # Where it is not given, schemas have the number of the dtype.
    return dtype if isinstance(dtype, torch.dtype) else torch.int64


def _between(
    x: Builder, shape: Sequence[int], dtype: torch.dtype, low: int, to: int | None
) -> Value:
    least = torch.iinfo(torch.int64).min
    if to is None and low == least:
        words = x.bitcast(threefry.wide(x, math.prod(shape)), torch.int64)
        return x.reshape(_rounded(words, dtype), shape)
    high = to if to is not None else _largest(dtype) + 1
    if dtype.is_floating_point:
        low = _representable(low, dtype, +1)
        high = _representable(high - 1, dtype, -1) + 1 if to is not None else high
    else:
        low_limit = 0 if dtype is torch.bool else torch.iinfo(dtype).min
        if low < low_limit or high - 1 > _largest(dtype):
            raise LoweringError(f"random numbers in [{low}, {high}) do not fit into {dtype}")
    if low >= high:
        raise LoweringError(f"there are no random numbers in [{low}, {high})")
    return _integers(x, shape, dtype, high - low, low)


def _representable(bound: int, dtype: torch.dtype, direction: int) -> int:
    """The nearest integer to `bound`, not beyond it, that a floating dtype holds."""
    rounded = int(torch.tensor(bound, dtype=dtype).item())
    if (rounded - bound) * direction >= 0:
        return bound if rounded == bound else rounded
    step = 1 << (abs(bound).bit_length() - _digits(dtype))
    return rounded + direction * step


def _digits(dtype: torch.dtype) -> int:
    return 1 - int(math.log2(torch.finfo(dtype).eps)) if dtype.is_floating_point else 0


def _largest(dtype: torch.dtype) -> int:
    """The largest value, or the largest integer up to which all are representable."""
    if dtype is torch.bool:
        return 1
    return 1 << _digits(dtype) if dtype.is_floating_point else torch.iinfo(dtype).max


def _integers(x: Builder, shape: Sequence[int], dtype: torch.dtype, span: int, low: int) -> Value:
    """From [low, low + span), by the high part of a product with a word."""
    count = math.prod(shape)
    if span < 1 << 28:
        drawn = distributions.multiply_high(x, threefry.narrow(x, count), span)
        fits = low >= -(1 << 31) and low + span <= 1 << 31
        drawn = drawn.to(torch.int32 if fits else torch.int64)
    elif span < 1 << 64:
        words = threefry.wide(x, count)
        drawn = x.bitcast(distributions.multiply_high(x, words, span), torch.int64)
    else:
        drawn = x.bitcast(threefry.wide(x, count), torch.int64)
    return x.reshape(_rounded(drawn + low if low else drawn, dtype), shape)


def _rounded(integers: Value, dtype: torch.dtype) -> Value:
    return integers.to(dtypes.compute_dtype(dtype)).to(dtype)


@lower(aten.bernoulli.p)
def bernoulli_number(x: Builder, a: Value, p: Parameter) -> Value:
    happens = _event(x, a.size, p, "last_word", "is_possible")
    return x.reshape(happens.to(a.dtype), a.shape)


@lower(aten.bernoulli.Tensor)
def bernoulli_tensor(x: Builder, a: Value, p: Operand) -> Value:
    if not isinstance(p, Value):
        return bernoulli_number(x, a, p)
    return _bernoulli(x, x.broadcast(p, a.shape), a.dtype)


@lower(aten.bernoulli)
def bernoulli(x: Builder, p: Value) -> Value:
    return _bernoulli(x, p, p.dtype)


def _bernoulli(x: Builder, p: Value, dtype: torch.dtype) -> Value:
    wide = x.reshape(p.to(dtypes.compute_dtype(p.dtype)), [-1])
    outside = ~((wide >= 0.0) & (wide <= 1.0))
    x.check(outside, RuntimeError, "bernoulli_ expects all values of p to be in [0, 1]")
    # Rounded by hand: adding one half first would round twice.
    scaled = wide * 2.0**32
    whole = x.floor(scaled)
    threshold = whole + (scaled - whole >= 0.5).to(wide.dtype)
    certain = threshold >= 2.0**32
    bounded = x.select(certain | outside, 0.0, threshold).to(torch.uint32)
    happens = (threefry.narrow(x, p.size) < bounded) | certain
    return x.reshape(happens.to(dtype), p.shape)


def _event(x: Builder, count: int, p: Parameter, last_word: str, is_possible: str) -> Value:
    last = x.host_number(last_word, [p], torch.uint32)
    return (threefry.narrow(x, count) <= last) & x.host_number(is_possible, [p], torch.bool)


# Dropout


@lower(aten.native_dropout)
def native_dropout(x: Builder, a: Value, p: Parameter, train: bool | None) -> tuple[Value, Value]:
    if train is False or a.size == 0:
        return a, x.constant(1, torch.bool, a.shape)
    if dtypes.is_integral(a.dtype):
        raise LoweringError(f"aten::native_dropout scales its input, which {a.dtype} cannot hold")
    kept = x.reshape(_event(x, a.size, p, "last_kept_word", "is_ever_kept"), a.shape)
    wide = dtypes.compute_dtype(a.dtype)
    scaled = a.to(wide) * kept.to(wide) * x.host_number("dropout_scale", [p], wide)
    return scaled.to(a.dtype), kept


@lower(aten.rrelu_with_noise_functional)
def rrelu_with_noise(
    x: Builder,
    a: Value,
    noise: Value,
    low: Parameter,
    high: Parameter,
    training: bool,
) -> tuple[Value, Value]:
    wide = distributions.real_dtype(a.dtype)
    values = a.to(wide)
    if not training:
        slope = x.host_number("half_sum", [low, high], wide)
        return x.select(values > 0.0, values, values * slope).to(a.dtype), noise
    drawn = distributions.unit(x, a.dtype, a.size) * x.host_number("slope_range", [low, high], wide)
    slopes = x.reshape(_shifted(x, drawn, x.number(low, wide)), a.shape)
    slopes = x.select(values <= 0.0, slopes, 1.0)
    return (values * slopes).to(a.dtype), slopes.to(noise.dtype)


# Choices


@lower(aten.randperm, aten.randperm.generator)
def randperm(x: Builder, n: int, *, dtype: torch.dtype | None) -> Value:
    if not n:
        return x.constant(0, _or_int64(dtype), [0])
    low, high = threefry.wide_words(x, n)
    index = order_by(x, [*digits(x, ~low), *digits(x, ~high)], n)
    return _rounded(index, _or_int64(dtype))


@lower(aten.multinomial)
def multinomial(x: Builder, p: Value, num_samples: int, replacement: bool) -> Value:
    wide = p.to(dtypes.compute_dtype(p.dtype))
    x.check(
        ~((wide >= 0.0) & (wide < math.inf)),
        RuntimeError,
        "probability tensor contains either `inf`, `nan` or element < 0",
    )
    x.check(
        x.sum(wide, [-1]).eq(0.0),
        RuntimeError,
        "invalid multinomial distribution (sum of probabilities <= 0)",
    )
    if replacement and num_samples > 1:
        return _choose_again(x, p.to(torch.float64), num_samples)
    divisor = exponential(x, p, 1.0).to(wide.dtype)
    keys = (wide / divisor).to(p.dtype)
    if num_samples == 1:
        return x.argmax(keys, -1, True)[1].to(torch.int64)
    return ordered(x, keys, -1, True, num_samples)[1].to(torch.int64)


def _choose_again(x: Builder, p: Value, draws: int) -> Value:
    """The first category whose running sum reaches a random share of the whole."""
    rows = x.reshape(p, [-1, p.shape[-1]])
    sums = x.call(aten.cumsum.default, rows, 1)
    total = x.slice_in_dim(sums, 1, p.shape[-1] - 1, p.shape[-1])
    words = threefry.wide(x, rows.shape[0] * draws)
    target = x.reshape(distributions.open_unit_double(x, words), [rows.shape[0], draws]) * total
    passed = x.unsqueeze(sums, 1) < x.unsqueeze(target, 2)
    return x.reshape(x.sum(passed.to(torch.int64), [2]), [*p.shape[:-1], draws])


def _parts(
    x: Builder,
    shape: Sequence[int],
    dtype: torch.dtype,
    real: Callable[[torch.dtype, int], Value],
) -> Value:
    """Numbers of a dtype from real ones; a complex number is two."""
    count = math.prod(shape)
    if not dtype.is_complex:
        return x.reshape(real(dtype, count).to(dtype), shape)
    pairs = x.reshape(real(dtypes.real_dtype(dtype), 2 * count), [count, 2])
    parts = [x.reshape(x.slice_in_dim(pairs, 1, i, i + 1), shape) for i in (0, 1)]
    return x.complex(parts[0], parts[1])


def _shaped(x: Builder, flat: Value, like: Value) -> Value:
    return x.reshape(flat.to(like.dtype), like.shape)
