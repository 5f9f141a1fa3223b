"""Gamma, zeta and error functions beyond those of CHLO, and what inverts them."""

from __future__ import annotations

import math
from typing import Any

import torch

from torch_trainium.lowering import dtypes, promotion
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.chebyshev import fitted
from torch_trainium.lowering.ops.functions import digamma
from torch_trainium.lowering.pointwise import pointwise
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


@pointwise(
    aten.special_zeta,
    aten.special_zeta.self_scalar,
    aten.special_zeta.other_scalar,
    result="float",
)
def zeta(x: Builder, a: Value, b: Value) -> Value:
    """The sum of (b + k) ** -a: term by term up to 9, then by the Euler-Maclaurin formula."""
    a, b = x.broadcast_together(a, b)
    at_pole = (b <= 0) & b.eq(x.floor(b))
    start = x.select(at_pole | (a <= 1), _FAR, b)
    zero = x.constant(0, a.dtype, a.shape)

    def step(a: Value, at: Value, total: Value) -> list[Value]:
        near = at <= _FAR
        total = x.select(near, total + x.power(at, -a), total)
        return [a, x.select(near, at + 1, at), total]

    state = [a, start, zero]
    _, end, head = x.while_(state, lambda a, at, total: x.any(at <= _FAR), step)
    value = head + x.select(x.is_inf(a) & head.ne(0), 0, _zeta_tail(x, a, end))
    return x.select(a < 1, math.nan, x.select(a.eq(1) | at_pole, math.inf, value))


# Where the tail's series has the precision of float64.
_FAR = 9

# Bernoulli numbers B(2k) over factorials of 2k.
_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000)


def _zeta_tail(x: Builder, a: Value, at: Value) -> Value:
    power = x.power(at, -a)
    total = power * at / (a - 1) + power * 0.5
    factor = a * power / at
    for k, bernoulli in enumerate(_BERNOULLI):
        total = total + factor * bernoulli
        factor = factor * (a + (2 * k + 1)) * (a + (2 * k + 2)) / (at * at)
    return total


@lower(aten.polygamma)
def polygamma(x: Builder, n: int, a: Value) -> Value:
    """The n-th derivative of digamma, by the zeta function of Hurwitz."""
    dtype = promotion.floating(a.dtype)
    wide = a.to(dtypes.compute_dtype(dtype))
    if n == 0:
        return digamma(x, wide).to(dtype)
    if n == 1:
        return _trigamma(x, wide).to(dtype)
    sign = 1.0 if n % 2 else -1.0
    order = x.constant(n + 1, wide.dtype)
    return (zeta(x, order, wide) * (sign * math.gamma(n + 1))).to(dtype)


def _trigamma(x: Builder, a: Value) -> Value:
    """Left of 1/2 by reflection: trigamma(a) + trigamma(1 - a) = (pi / sin(pi * a)) ** 2."""
    reflected = a < 0.5
    right = zeta(x, x.constant(2, a.dtype), x.select(reflected, 1 - a, a))
    right = x.select(a.eq(math.inf), 0, right)
    sine = x.sin(a * math.pi)
    return x.select(reflected, math.pi**2 / (sine * sine) - right, right)


@pointwise(aten.special_erfcx, result="float")
def erfcx(x: Builder, a: Value) -> Value:
    """exp(a * a) * erfc(a): of a negative number by the reflection erfc(-a) = 2 - erfc(a)."""
    inverse = 4 / (4 + x.abs(a))
    right = fitted(x, _erfcx_by_inverse, inverse, 0, 1, degree=32) * inverse
    return x.select(a < 0, 2 * x.exp(a * a) - right, right)


def _erfcx_by_inverse(t: Any) -> Any:
    """erfcx(4 / t - 4) / t, from 2 / sqrt(pi) times the integral of exp(-u * u - 2 * x * u)."""
    import numpy

    nodes, weights = numpy.polynomial.legendre.leggauss(120)
    at = (4 / t - 4)[:, None]
    end = 7 / (1 + at / 3)
    u = (nodes + 1) / 2 * end
    integral = (weights / 2 * end * numpy.exp(-u * u - 2 * at * u)).sum(axis=1)
    return 2 / math.sqrt(math.pi) * integral / t


@pointwise(aten.special_log_ndtr, result="float")
def log_ndtr(x: Builder, a: Value) -> Value:
    scaled = a * 0.5**0.5
    left = x.log(erfcx(x, -scaled) * 0.5) - scaled * scaled
    right = x.log1p(x.chlo_unary("Erfc", scaled) * -0.5)
    return x.select(a < -1, left, right)


@pointwise(aten.special_ndtri, result="float")
def ndtri(x: Builder, a: Value) -> Value:
    """In the tails by Newton's method on the logarithm, which does not cancel there."""
    middle = x.chlo_unary("ErfInv", 2 * a - 1) * 2**0.5
    tail = x.minimum(a, 1 - a)
    target = x.log(tail)
    guess = -x.sqrt(-2 * target)
    for _ in range(5):
        logarithm = log_ndtr(x, guess)
        density = -0.5 * guess * guess - 0.5 * math.log(2 * math.pi)
        guess = guess - (logarithm - target) * x.exp(logarithm - density)
    outer = x.select(a < 0.5, guess, -guess)
    inverse = x.select(tail < 0.02, outer, middle)
    inverse = x.select(a.eq(0), -math.inf, x.select(a.eq(1), math.inf, inverse))
    return x.select((a < 0) | (a > 1), math.nan, inverse)


@pointwise(aten.igamma, result="float")
def igamma(x: Builder, a: Value, b: Value) -> Value:
    lower_, _ = _incomplete_gammas(x, a, b)
    return lower_


@pointwise(aten.igammac, result="float")
def igammac(x: Builder, a: Value, b: Value) -> Value:
    _, upper = _incomplete_gammas(x, a, b)
    return upper


def _incomplete_gammas(x: Builder, a: Value, b: Value) -> tuple[Value, Value]:
    """The regularized P(a, b) and Q(a, b): a series left of the peak, a fraction right of it."""
    a, b = x.broadcast_together(a, b)
    usual = (a > 0) & (b > 0) & x.is_finite(a) & x.is_finite(b)
    s, t = x.select(usual, a, 1), x.select(usual, b, 1)
    by_series = t < s + 1
    front = _gamma_density(x, s, t)
    series = front * _gamma_series(x, s, x.select(by_series, t, 0)) / s
    fraction = front * _gamma_fraction(x, s, x.select(by_series, s + 1, t))
    low = x.select(by_series, series, 1 - fraction)
    high = x.select(by_series, 1 - series, fraction)
    return _at_the_edges(x, a, b, usual, low, 0, 1), _at_the_edges(x, a, b, usual, high, 1, 0)


def _gamma_density(x: Builder, s: Value, t: Value) -> Value:
    """t**s * exp(-t) / gamma(s); for large s by Stirling's series, where the plain form cancels."""
    plain = x.exp(s * x.log(t) - t - x.chlo_unary("Lgamma", s))
    large = x.maximum(s, 10)
    inverse = 1 / large
    square = inverse * inverse
    rest = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260)))
    beyond = (t - large) * inverse
    exponent = large * (x.log1p(beyond) - beyond) - rest
    return x.select(s > 10, x.sqrt(large * (0.5 / math.pi)) * x.exp(exponent), plain)


def _at_the_edges(
    x: Builder, a: Value, b: Value, usual: Value, inside: Value, at_zero: int, at_infinity: int
) -> Value:
    """What P or Q is where an argument is zero, infinite, or out of the domain."""
    nan = x.constant(math.nan, a.dtype)
    edge = x.select(b.eq(math.inf), at_infinity, nan)
    edge = x.select(a.eq(math.inf), x.select(b.eq(math.inf), nan, at_zero), edge)
    edge = x.select(b.eq(0), at_zero, edge)
    edge = x.select(a.eq(0), x.select(b > 0, at_infinity, nan), edge)
    edge = x.select((a < 0) | (b < 0), nan, edge)
    return x.select(usual, inside, edge)


# Enough for arguments of about a million.
_MOST_TERMS = 2000


def _gamma_series(x: Builder, s: Value, t: Value) -> Value:
    """1 + t / (s + 1) + t * t / ((s + 1) * (s + 2)) + ..."""
    one = x.constant(1, s.dtype, s.shape)
    epsilon = torch.finfo(s.dtype).eps
    count = x.constant(1, s.dtype)

    def unfinished(n: Value, term: Value, total: Value, s: Value, t: Value) -> Value:
        return x.any(term > total * epsilon) & (n < _MOST_TERMS)

    def step(n: Value, term: Value, total: Value, s: Value, t: Value) -> list[Value]:
        term = term * t / (s + n)
        return [n + 1, term, total + term, s, t]

    return x.while_([count, one, one, s, t], unfinished, step)[2]


def _gamma_fraction(x: Builder, s: Value, t: Value) -> Value:
    """The continued fraction of Q(s, t) by the modified method of Lentz."""
    epsilon, tiny = torch.finfo(s.dtype).eps, torch.finfo(s.dtype).tiny
    start = t + 1 - s
    first = 1 / x.select(start.eq(0), tiny, start)
    large = x.constant(1 / tiny, s.dtype, s.shape)
    one = x.constant(2, s.dtype, s.shape)

    def unfinished(n: Value, c: Value, d: Value, value: Value, change: Value, *_: Value) -> Value:
        return x.any(x.abs(change - 1) > epsilon) & (n < _MOST_TERMS)

    def step(
        n: Value, c: Value, d: Value, value: Value, change: Value, s: Value, t: Value
    ) -> list[Value]:
        factor = n * (s - n)
        base = t + 1 - s + 2 * n
        d, c = factor * d + base, base + factor / c
        d = 1 / x.select(x.abs(d) < tiny, tiny, d)
        c = x.select(x.abs(c) < tiny, tiny, c)
        return [n + 1, c, d, value * (c * d), c * d, s, t]

    state = [x.constant(1, s.dtype), large, first, first, one, s, t]
    return x.while_(state, unfinished, step)[3]
