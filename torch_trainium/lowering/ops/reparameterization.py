"""Gradients of random numbers by the parameters they were drawn with.

Where the cumulative distribution has no closed derivative, PyTorch approximates it by cases
(aten/src/ATen/native/Distributions.h), and so do these.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.ops.functions import digamma
from torch_trainium.lowering.pointwise import pointwise
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


@pointwise(aten._standard_gamma_grad)
def standard_gamma_grad(x: Builder, alpha: Value, drawn: Value) -> Value:
    near_mean = x.abs(drawn - alpha) <= alpha * 0.1
    large = x.select(
        near_mean, _gamma_at_mean(drawn / alpha, alpha), _gamma_saddle(x, alpha, drawn)
    )
    result = x.select(alpha > 8, large, _gamma_rational(x, alpha, drawn))
    return x.select(drawn < 0.8, _gamma_series(x, alpha, drawn), result)


def _gamma_series(x: Builder, alpha: Value, drawn: Value) -> Value:
    """By the Taylor series of the lower incomplete gamma function.

    Its first term and the pole of digamma, 1 / alpha, cancel.
    """
    numerator = x.constant(1, alpha.dtype, alpha.shape)
    first = second = x.constant(0, alpha.dtype, alpha.shape)
    for i in range(1, 6):
        numerator = numerator * drawn / -i
        first = first + numerator / (alpha + i)
        second = second + numerator / ((alpha + i) * (alpha + i))
    slope = second - first / alpha
    slope = slope - (x.log(drawn) - digamma(x, alpha + 1)) * (1 / alpha + first)
    return _number(x, slope * drawn * x.exp(drawn))


def _gamma_at_mean(ratio: Value, alpha: Value) -> Value:
    """Rice's saddle point expansion about its singularity, where the ratio to alpha is one."""
    leading = 1440 + ratio * 3600 - ratio * ratio * 720
    rest = (ratio * 318 + 107 - ratio * ratio * 65) / alpha
    return (288 + (24 + 1 / alpha) / alpha) * (leading + rest) / 1244160


def _gamma_saddle(x: Builder, alpha: Value, drawn: Value) -> Value:
    offset = (drawn - alpha) / alpha
    log_ratio = x.log1p(offset)
    linear = -x.sqrt(8 / alpha) / offset
    curved = x.power(alpha * (offset - log_ratio), x.constant(-1.5, alpha.dtype))
    slope = log_ratio * (linear + x.select(offset < 0, -curved, curved))
    slope = slope - x.sqrt(2 / alpha) * (offset + 2) / (alpha * offset * offset)
    stirling = 1 + (1 + 1 / (alpha * 24)) / (alpha * 12)
    return -stirling * drawn * slope / x.sqrt(alpha * 8)


# Coefficients in log(alpha), of numerator and denominator, for powers of log(drawn / alpha).
_GAMMA = (
    (
        (0.16009398, -0.094634809, 0.025146376, -0.0030648343),
        (0.53487893, 0.1298071, 0.065735949, -0.0015649758),
        (0.040121004, -0.0065914022, -0.0026286047, -0.0013441777),
    ),
    (
        (1.0, 0.32668115, 0.10406089, 0.0014179084),
        (0.16639465, 0.020070113, -0.0035938915, -0.00058392623),
        (0.017050642, -0.0021309326, 0.00085092367, -1.5247877e-07),
    ),
)


def _gamma_rational(x: Builder, alpha: Value, drawn: Value) -> Value:
    u, v = x.log(drawn / alpha), x.log(alpha)
    numerator, denominator = (
        _polynomial(u, [_polynomial(v, row) for row in rows]) for rows in _GAMMA
    )
    return x.exp(numerator / denominator)


@lower(aten._dirichlet_grad)
def dirichlet_grad(x: Builder, drawn: Value, alpha: Value, total: Value) -> Value:
    """In float64, for the saddle point expansion subtracts what is nearly equal."""
    at, a, n = (v.to(torch.float64) for v in x.broadcast_together(drawn, alpha, total))
    b = n - a
    boundary = n * at * (1 - at)
    result = x.select((a > 6) & (b > 6), _beta_saddle(x, at, a, b), _beta_rational(x, at, a, n))
    near_one = (at >= 0.5) & (boundary < 0.75)
    result = x.select(near_one, -_beta_near_one(x, 1 - at, b, a), result)
    near_zero = (at <= 0.5) & (boundary < 2.5)
    return x.select(near_zero, _beta_near_zero(x, at, a, b), result).to(drawn.dtype)


def _beta_near_zero(x: Builder, at: Value, a: Value, b: Value) -> Value:
    """By `a`, with a Taylor series at zero."""
    factor = digamma(x, a) - digamma(x, a + b) - x.log(at)
    numerator = x.constant(1, at.dtype, at.shape)
    series = (factor + 1 / a) / a
    for i in range(1, 11):
        numerator = numerator * (i - b) * at / i
        series = series + numerator / (a + i) * (factor + 1 / (a + i))
    return _number(x, at * x.power(1 - at, -b) * series)


def _beta_near_one(x: Builder, at: Value, a: Value, b: Value) -> Value:
    """By `b`, with a Taylor series at zero."""
    factor = digamma(x, a + b) - digamma(x, b)
    numerator = betas = x.constant(1, at.dtype, at.shape)
    slopes = x.constant(0, at.dtype, at.shape)
    series = factor / a
    for i in range(1, 9):
        numerator = numerator * at / -i
        slopes = slopes * (b - i) + betas
        betas = betas * (b - i)
        series = series + numerator / (a + i) * (slopes + factor * betas)
    return _number(x, -x.power(1 - at, 1 - b) * series)


def _beta_saddle(x: Builder, at: Value, a: Value, b: Value) -> Value:
    """Rice's saddle point expansion, for large parameters."""
    n = a + b
    mean = a / n
    deviation = x.sqrt(a * b / (n + 1)) / n
    offset = a * (at - 1) + b * at
    first = a * a * 2 * (at - 1) + a * b * (at - 1) - at * b * b
    first = first / (x.sqrt(a * 2 / b) * n * x.sqrt(n) * offset * offset)
    linear = x.sqrt(a * b * 8 / n) / offset
    divergence = b * x.log(b / (n * (1 - at))) + a * x.log(a / (n * at))
    curved = x.power(divergence, x.constant(-1.5, at.dtype))
    curved = x.select(at < mean, curved, -curved)
    slope = first + x.log(a / (n * at)) * 0.5 * (linear + curved)
    stirling = _stirling(a) * _stirling(b) / _stirling(n)
    saddle = -stirling * at / x.sqrt(a * b * 2 / n) * slope
    return x.select(x.abs(at - mean) <= deviation * 0.1, _beta_at_mean(at, a, b), saddle)


def _stirling(a: Value) -> Value:
    return 1 + 1 / (a * 12) + 1 / (a * a * 288)


def _beta_at_mean(at: Value, a: Value, b: Value) -> Value:
    """The same about its singularity."""
    n = a + b
    polynomial = _polynomial(
        a,
        [
            at * b * b * b * b * 47,
            (43 + 20 * (16 + 27 * b) * at) * b * b * b,
            3 * (59 + 180 * b - 90 * at) * b * b,
            (453 + 1620 * b * (1 - at) - 455 * at) * b,
            8 * (1 - at) * (135 * b - 11),
        ],
    )
    factor = (1 + 12 * a) * (1 + 12 * b) / (n * n)
    return factor / (1 - at) * polynomial / (12960 * a * a * a * b * b * (1 + 12 * n))


# Coefficients in log(total) - v, of numerator and denominator, for powers of u = log(drawn), then
# of v = log(alpha) - u.
_BETA = (
    (
        (
            (1.003668233, -0.01061107488, -0.0657888334, 0.01201642863),
            (0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033),
            (-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013),
        ),
        (
            (0.221950385, -0.3187676331, 0.01799915743, 0.01074823814),
            (-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057),
            (0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05),
        ),
        (
            (-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565),
            (0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181),
            (0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05),
        ),
    ),
    (
        (
            (1.0, -0.02924021934, -0.04438342661, 0.007285809825),
            (0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521),
            (-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149),
        ),
        (
            (0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273),
            (0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956),
            (-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05),
        ),
        (
            (0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05),
            (0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05),
            (-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06),
        ),
    ),
)


def _beta_rational(x: Builder, at: Value, a: Value, n: Value) -> Value:
    u = x.log(at)
    v = x.log(a) - u
    w = x.log(n) - v
    numerator, denominator = (
        _polynomial(u, [_polynomial(v, [_polynomial(w, row) for row in rows]) for rows in cube])
        for cube in _BETA
    )
    approximation = at * (digamma(x, n) - digamma(x, a)) / (n - a)
    return numerator / denominator * approximation


def _polynomial(at: Value, coefficients: Sequence[Value | float]) -> Value:
    """From the constant on."""
    total: Value | float = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = at * total + coefficient
    assert isinstance(total, Value)  # there are two coefficients or more
    return total


def _number(x: Builder, a: Value) -> Value:
    """Zero where it is none."""
    return x.select(x.is_nan(a), 0, a)
