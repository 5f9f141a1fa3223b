"""Bessel and Airy functions in float64, from their definitions, for Chebyshev series to fit.

Every function takes and gives a NumPy array. Equations are those of the Digital Library of
Mathematical Functions, https://dlmf.nist.gov.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy

Array = Any  # of float64
Function = Callable[[Array], Array]

EULER_GAMMA = 0.57721566490153286
_TERMS = 60


@cache
def first_kind(order: int, sign: int) -> Function:
    """J(x) / x**order (sign -1) or I(x) / x**order (sign 1) of x * x: 10.2.2 and 10.25.2."""

    def function(square: Array) -> Array:
        return sum(
            (sign * square / 4) ** k / (math.factorial(k) * math.factorial(k + order) * 2.0**order)
            for k in range(_TERMS)
        )

    return function


@cache
def logarithmic_rest(order: int, sign: int) -> Function:
    """What digamma's values contribute to Y (sign -1) and K (sign 1), over x**order: 10.8.1."""

    def function(square: Array) -> Array:
        total = numpy.zeros_like(square)
        for k in range(_TERMS):
            digammas = sum(1 / m for m in range(1, k + 1)) - EULER_GAMMA
            digammas += sum(1 / m for m in range(1, k + order + 1)) - EULER_GAMMA
            factorials = math.factorial(k) * math.factorial(k + order) * 2.0**order
            total += digammas * (sign * square / 4) ** k / factorials
        return total

    return function


@cache
def growth_near_zero(order: int) -> Function:
    """exp(-x) * I(x) / x**order of x."""

    def function(x: Array) -> Array:
        return numpy.exp(-x) * first_kind(order, 1)(x * x)

    return function


@cache
def growth(order: int) -> Function:
    """sqrt(x) * exp(-x) * I(x) of 1 / x, by the integral 10.32.3."""

    def function(inverse: Array) -> Array:
        x = 1 / inverse[:, None]
        angle = (numpy.arange(8192) + 0.5) * (math.pi / 8192)
        integrand = numpy.exp(x * (numpy.cos(angle) - 1)) * numpy.cos(order * angle)
        return numpy.sqrt(x[:, 0]) * integrand.mean(axis=1)

    return function


@cache
def decay(order: float) -> Function:
    """sqrt(2 * x / pi) * exp(x) * K(x) of 1 / x, by the integral 10.32.8."""

    def function(inverse: Array) -> Array:
        return numpy.real(_hankel(order, 1 / inverse.astype(complex)))

    return function


@cache
def in_phase(order: float) -> Function:
    """The part P of sqrt(pi * x / 2) * (J + iY) = (P + iQ) * exp(i * phase), of 1 / x**2."""

    def function(square: Array) -> Array:
        return numpy.real(_hankel(order, -1j / numpy.sqrt(square)))

    return function


@cache
def in_quadrature(order: float) -> Function:
    """The part Q, times x."""

    def function(square: Array) -> Array:
        x = 1 / numpy.sqrt(square)
        return numpy.imag(_hankel(order, -1j * x)) * x

    return function


def _hankel(order: float, z: Array) -> Array:
    """sqrt(2 * z / pi) * exp(z) * K(z): the integral over t = exp(y), by the trapezoidal rule."""
    y = numpy.linspace(-70, 4.5, 6000)
    t = numpy.exp(y)
    base = numpy.exp(-t + y * (order + 0.5))
    integrand = base * (1 + t / (2 * z[:, None])) ** (order - 0.5)
    return integrand.sum(axis=1) * (y[1] - y[0]) / math.gamma(order + 0.5)


def airy(x: Array) -> Array:
    """Ai(x) near zero, by its series of Maclaurin: 9.4.1."""
    one = 1 / (3 ** (2 / 3) * math.gamma(2 / 3))
    other = -1 / (3 ** (1 / 3) * math.gamma(1 / 3))
    even, odd = numpy.full_like(x, one), other * x
    total = even + odd
    for k in range(1, _TERMS):
        even = even * x**3 / ((3 * k) * (3 * k - 1))
        odd = odd * x**3 / ((3 * k) * (3 * k + 1))
        total = total + even + odd
    return total
