"""Distributions by rejection: each element draws from a substream until it accepts a number.

The numbers are those of eager mode (docs/random.md), which computes them in float64 as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from torch_trainium.errors import LoweringError
from torch_trainium.lowering import distributions, threefry
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten

F64 = torch.float64

# From the words of one attempt and its parameters to (accepted, number, how many words it took).
Attempt = Callable[[Sequence[Value], Sequence[Value]], tuple[Value, Value, "Value | int"]]


@lower(aten.poisson)
def poisson(x: Builder, rate: Value) -> Value:
    wide = x.reshape(rate.to(F64), [-1])
    x.check(~(wide >= 0.0), RuntimeError, "invalid Poisson rate, expected rate to be non-negative")
    # From 2^106 on the spacing of doubles exceeds the standard deviation.
    certain = ~(wide > 0.0) | (wide > 2.0**106)
    keys = threefry.substream_keys(x, rate.size)
    few = _arrivals(x, keys, x.select(certain | (wide >= 10.0), 0.0, wide))
    many = _transformed_poisson(x, keys, wide, certain | (wide < 10.0))
    drawn = x.select(certain, wide, x.select(wide < 10.0, few, many))
    return x.reshape(drawn, rate.shape).to(rate.dtype)


@lower(aten.binomial)
def binomial(x: Builder, count: Value, prob: Value) -> Value:
    if count.dtype is not prob.dtype or not count.dtype.is_floating_point:
        raise LoweringError(
            f"aten::binomial takes count and prob of one floating-point dtype, not {count.dtype} "
            f"and {prob.dtype}"
        )
    count, prob = x.broadcast_together(count, prob)
    n, p = (x.reshape(v.to(F64), [-1]) for v in (count, prob))
    rare = x.minimum(p, 1.0 - p)  # the less likely outcome is counted
    none, every = (n <= 0.0) | (p <= 0.0), p >= 1.0
    unknown = x.is_nan(p) | x.is_nan(n)
    settled = none | every | unknown
    keys = threefry.substream_keys(x, count.size)
    few = n * rare < 10.0
    by_gaps = _failures_by_gaps(x, keys, n, rare, settled | ~few)
    by_rejection = _transformed_binomial(x, keys, n, rare, settled | few)
    hits = x.select(few, by_gaps, by_rejection)
    drawn = x.select(p > 0.5, n - hits, hits)
    drawn = x.select(none, 0.0, x.select(unknown, math.nan, x.select(every, n, drawn)))
    return x.reshape(drawn, count.shape).to(count.dtype)


@lower(aten._standard_gamma)
def standard_gamma(x: Builder, alpha: Value) -> Value:
    drawn = x.maximum(_gamma(x, alpha), torch.finfo(alpha.dtype).tiny)
    return x.reshape(drawn, alpha.shape).to(alpha.dtype)


@lower(aten._sample_dirichlet)
def sample_dirichlet(x: Builder, alpha: Value) -> Value:
    """Gamma variates divided by the sum of their row, kept inside (0, 1)."""
    if not alpha.size:
        return alpha
    drawn = x.reshape(x.maximum(_gamma(x, alpha), torch.finfo(F64).tiny), alpha.shape)
    share = drawn / x.sum(drawn, [-1], keepdim=True) if alpha.rank else drawn / drawn
    limits = torch.finfo(alpha.dtype)
    return x.clamp(limits.tiny, share.to(alpha.dtype), 1 - limits.eps / 2)


def _rejected(
    x: Builder,
    keys: threefry.Words,
    start: Value,
    words: int,
    done: Value,
    parameters: Sequence[Value],
    attempt: Attempt,
) -> Value:
    """The first accepted number of each element that is not done; zero elsewhere.

    An attempt sees the next `words` words of its substream, from number `start` on.
    """
    number = x.constant(0, F64, done.shape)
    state = [start, done, number, *keys, *parameters]

    def step(counter: Value, done: Value, number: Value, *rest: Value) -> list[Value]:
        drawn = [_word(x, (rest[0], rest[1]), counter + i) for i in range(words)]
        accepted, candidate, taken = attempt(drawn, rest[2:])
        number = x.select(accepted & ~done, candidate, number)
        return [counter + taken, done | accepted, number, *rest]

    return x.while_(state, lambda counter, done, *_: ~x.all(done), step)[2]


def _word(x: Builder, key: threefry.Words, counter: Value) -> Value:
    high = x.constant(0, torch.uint32, counter.shape)
    return threefry.join(x, threefry.block(x, key, (counter, high)))


def _from_the_first(x: Builder, like: Value) -> Value:
    return x.constant(0, torch.uint32, like.shape)


# Of float32 precision in the library whose algorithm this is.
_THIRD = float(torch.tensor(1 / 3, dtype=torch.float32))
_SQUEEZE = float(torch.tensor(0.0331, dtype=torch.float32))


def _gamma(x: Builder, alpha: Value) -> Value:
    """By Marsaglia and Tsang (2000); shapes below 1 from one more and a power of a uniform."""
    wide = x.reshape(alpha.to(F64), [-1])
    keys = threefry.substream_keys(x, alpha.size)
    boosted = wide < 1.0
    first = distributions.unit_double(x, _word(x, keys, _from_the_first(x, wide)))
    scale = x.select(boosted, x.power(1.0 - first, 1.0 / wide), 1.0)
    d = x.select(boosted, wide + 1.0, wide) - _THIRD
    c = 1.0 / x.sqrt(d * 9.0)

    def attempt(words: Sequence[Value], known: Sequence[Value]) -> tuple[Value, Value, Value]:
        d, c, scale = known
        normal = _normal(x, words[0], words[1])
        y = c * normal + 1.0
        inside = y > 0.0
        v = y * y * y
        u = 1.0 - distributions.unit_double(x, words[2])
        square = normal * normal
        squeezed = u < 1.0 - square * _SQUEEZE * square
        below = x.log(u) < square * 0.5 + d * (1.0 - v + x.log(v))
        taken = x.select(inside, x.constant(3, torch.uint32), 2)
        return inside & (squeezed | below), scale * d * v, taken

    start = boosted.to(torch.uint32)
    settled = wide.eq(0.0) | x.is_nan(wide)
    drawn = _rejected(x, keys, start, 3, settled, [d, c, scale], attempt)
    return x.select(x.is_nan(wide), wide, drawn)


def _normal(x: Builder, radius: Value, angle: Value) -> Value:
    length = x.sqrt(x.log(distributions.open_unit_double(x, radius)) * -2.0)
    return length * x.cos(distributions.unit_double(x, angle) * (2 * math.pi))


def _arrivals(x: Builder, keys: threefry.Words, rate: Value) -> Value:
    """Exponential arrivals in a unit of time, as a product of uniform numbers; none at rate 0."""
    end = x.exp(-rate)
    start = _from_the_first(x, rate)
    product = distributions.open_unit_double(x, _word(x, keys, start))

    def step(counter: Value, product: Value, end: Value, *keys: Value) -> list[Value]:
        going = product > end
        counter = counter + going.to(torch.uint32)
        next_ = distributions.open_unit_double(x, _word(x, (keys[0], keys[1]), counter))
        return [counter, x.select(going, product * next_, product), end, *keys]

    state = [start, product, end, *keys]
    counter = x.while_(state, lambda _, product, end, *rest: x.any(product > end), step)[0]
    return counter.to(F64)


def _transformed_poisson(x: Builder, keys: threefry.Words, rate: Value, done: Value) -> Value:
    """Algorithm PTRS of Hormann, "The transformed rejection method" (1993), by its names."""
    rate = x.select(done, 10.0, rate)
    b = x.sqrt(rate) * 2.53 + 0.931
    a = b * 0.02483 - 0.059
    v_r = 0.9277 - 3.6224 / (b - 2.0)
    inverse_alpha = 1.1328 / (b - 3.4) + 1.1239

    def attempt(words: Sequence[Value], known: Sequence[Value]) -> tuple[Value, Value, int]:
        rate, a, b, v_r, inverse_alpha = known
        u = distributions.open_unit_double(x, words[0]) - 0.5
        v = distributions.open_unit_double(x, words[1])
        u_s = 0.5 - x.abs(u)
        k = x.floor((a * 2.0 / u_s + b) * u + rate + 0.43)
        inside = (u_s >= 0.07) & (v <= v_r)
        refused = (k < 0.0) | ((u_s < 0.013) & (v > u_s))
        hat = x.log(v * inverse_alpha / (a / (u_s * u_s) + b))
        below = hat <= k * x.log(rate) - rate - x.chlo_unary("Lgamma", k + 1.0)
        return inside | (~refused & below), k, 2

    start = _from_the_first(x, rate)
    return _rejected(x, keys, start, 2, done, [rate, a, b, v_r, inverse_alpha], attempt)


def _failures_by_gaps(
    x: Builder, keys: threefry.Words, count: Value, p: Value, done: Value
) -> Value:
    """How many gaps between events, geometrically distributed, fit into `count` trials."""
    logarithm = x.log1p(-x.select(done, 0.5, p))
    zero = x.constant(0, F64, count.shape)

    def step(
        counter: Value, passed: Value, done: Value, count: Value, logarithm: Value, *keys: Value
    ) -> list[Value]:
        u = distributions.open_unit_double(x, _word(x, (keys[0], keys[1]), counter))
        passed = passed + x.ceil(x.log(u) / logarithm)
        done = done | (passed > count)
        counter = counter + (~done).to(torch.uint32)
        return [counter, passed, done, count, logarithm, *keys]

    state = [_from_the_first(x, count), zero, done, count, logarithm, *keys]
    return x.while_(state, lambda counter, passed, done, *_: ~x.all(done), step)[0].to(F64)


def _transformed_binomial(
    x: Builder, keys: threefry.Words, count: Value, p: Value, done: Value
) -> Value:
    """Algorithm BTRS of Hormann, "The generation of binomial random variates" (1993)."""
    count, p = x.select(done, 100.0, count), x.select(done, 0.5, p)
    deviation = x.sqrt(count * p * (1.0 - p))
    b = deviation * 2.53 + 1.15
    a = b * 0.0248 - 0.0873 + p * 0.01
    c = count * p + 0.5
    v_r = 0.92 - 4.2 / b
    alpha = (5.1 / b + 2.83) * deviation
    m = x.floor((count + 1.0) * p)

    def attempt(words: Sequence[Value], known: Sequence[Value]) -> tuple[Value, Value, int]:
        count, p, a, b, c, v_r, alpha, m = known
        u = distributions.open_unit_double(x, words[0]) - 0.5
        v = distributions.open_unit_double(x, words[1])
        u_s = 0.5 - x.abs(u)
        k = x.floor((a * 2.0 / u_s + b) * u + c)
        possible = (k >= 0.0) & (k <= count)
        inside = (u_s >= 0.07) & (v <= v_r)
        odds = p / (1.0 - p)
        hat = x.log(v * alpha / (a / (u_s * u_s) + b))
        bound = (
            (m + 0.5) * x.log((m + 1.0) / (odds * (count - m + 1.0)))
            + (count + 1.0) * x.log((count - m + 1.0) / (count - k + 1.0))
            + (k + 0.5) * x.log(odds * (count - k + 1.0) / (k + 1.0))
            + _stirling_rest(x, m)
            + _stirling_rest(x, count - m)
            - _stirling_rest(x, k)
            - _stirling_rest(x, count - k)
        )
        return possible & (inside | (hat <= bound)), k, 2

    start = _from_the_first(x, count)
    return _rejected(x, keys, start, 2, done, [count, p, a, b, c, v_r, alpha, m], attempt)


# log(k!) beyond Stirling's approximation, for k from 0 to 9.
_STIRLING_RESTS = (
    *(0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509),
    *(0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720),
    *(0.00925546218271273, 0.00833056343336287),
)


def _stirling_rest(x: Builder, k: Value) -> Value:
    square = (k + 1.0) * (k + 1.0)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1.0)
    place = x.clamp(0.0, k, len(_STIRLING_RESTS) - 1.0).to(torch.int32)
    known = x.take(x.vector(_STIRLING_RESTS, F64), place)
    return x.select(k < float(len(_STIRLING_RESTS)), known, series)
