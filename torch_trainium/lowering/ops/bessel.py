"""Bessel and Airy functions: series near zero, and their asymptotic form times a smooth factor."""

from __future__ import annotations

import math

import torch

from torch_trainium.lowering import bessel_series as series
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.chebyshev import fitted
from torch_trainium.lowering.pointwise import pointwise
from torch_trainium.lowering.values import Value

aten = torch.ops.aten

# Up to here I, J and Y are computed as near zero, and K up to the other.
NEAR = 8.0
NEAR_K = 2.0


@pointwise(aten.i0, aten.special_modified_bessel_i0, result="float")
def i0(x: Builder, a: Value) -> Value:
    return i0e(x, a) * x.exp(x.abs(a))


@pointwise(aten.special_i0e, result="float")
def i0e(x: Builder, a: Value) -> Value:
    return _scaled_i(x, x.abs(a), 0)


@pointwise(aten.special_i1, aten.special_modified_bessel_i1, result="float")
def i1(x: Builder, a: Value) -> Value:
    return i1e(x, a) * x.exp(x.abs(a))


@pointwise(aten.special_i1e, result="float")
def i1e(x: Builder, a: Value) -> Value:
    scaled = _scaled_i(x, x.abs(a), 1)
    return x.select(a < 0, -scaled, scaled)


@pointwise(aten.special_modified_bessel_k0, result="float")
def k0(x: Builder, a: Value) -> Value:
    return scaled_k0(x, a) * x.exp(-a)


@pointwise(aten.special_scaled_modified_bessel_k0, result="float")
def scaled_k0(x: Builder, a: Value) -> Value:
    return _scaled_k(x, a, 0)


@pointwise(aten.special_modified_bessel_k1, result="float")
def k1(x: Builder, a: Value) -> Value:
    return scaled_k1(x, a) * x.exp(-a)


@pointwise(aten.special_scaled_modified_bessel_k1, result="float")
def scaled_k1(x: Builder, a: Value) -> Value:
    return _scaled_k(x, a, 1)


@pointwise(aten.special_bessel_j0, result="float")
def j0(x: Builder, a: Value) -> Value:
    return _first_kind(x, x.abs(a), 0)


@pointwise(aten.special_bessel_j1, result="float")
def j1(x: Builder, a: Value) -> Value:
    return x.sign(a) * _first_kind(x, x.abs(a), 1)


@pointwise(aten.special_bessel_y0, result="float")
def y0(x: Builder, a: Value) -> Value:
    return _second_kind(x, a, 0)


@pointwise(aten.special_bessel_y1, result="float")
def y1(x: Builder, a: Value) -> Value:
    return _second_kind(x, a, 1)


@pointwise(aten.special_spherical_bessel_j0, result="float")
def spherical_j0(x: Builder, a: Value) -> Value:
    square = a * a
    near = 1 - square / 6 * (1 - square / 20 * (1 - square / 42 * (1 - square / 72)))
    far = x.select(x.is_inf(a), 0, x.sin(a) / a)
    return x.select(x.abs(a) < 0.5, near, far)


@pointwise(aten.special_airy_ai, result="float")
def airy(x: Builder, a: Value) -> Value:
    size = x.maximum(x.abs(a), 2)
    zeta = size * x.sqrt(size) * (2 / 3)
    inverse = 1 / zeta
    amplitude = 1 / (x.sqrt(x.sqrt(size)) * math.sqrt(math.pi))
    decaying = 0.5 * amplitude * x.exp(-zeta)
    decaying = decaying * fitted(x, series.decay(1 / 3), inverse, 0, 0.6)
    in_phase = fitted(x, series.in_phase(1 / 3), inverse * inverse, 0, 0.3)
    in_quadrature = fitted(x, series.in_quadrature(1 / 3), inverse * inverse, 0, 0.3) * inverse
    phase = zeta - math.pi / 4
    waving = amplitude * (x.cos(phase) * in_phase - x.sin(phase) * in_quadrature)
    near = fitted(x, series.airy, a, -4, 2.5)
    result = x.select(a < -4, waving, x.select(a > 2.5, decaying, near))
    return x.select(a.eq(math.inf), math.nan, result)


def _scaled_i(x: Builder, size: Value, order: int) -> Value:
    """exp(-size) * I(size)."""
    near = fitted(x, series.growth_near_zero(order), size, 0, NEAR)
    far = fitted(x, series.growth(order), 1 / x.maximum(size, NEAR), 0, 1 / NEAR)
    far = far / x.sqrt(size)
    return x.select(size < NEAR, near * size if order else near, far)


def _scaled_k(x: Builder, a: Value, order: int) -> Value:
    """exp(a) * K(a)."""
    square = a * a
    grown = fitted(x, series.first_kind(order, 1), square, 0, NEAR_K**2)
    rest = fitted(x, series.logarithmic_rest(order, 1), square, 0, NEAR_K**2)
    near = rest / 2 - _log_of_half(x, a) * grown
    near = 1 / a - near * a if order else near
    inverse = 1 / x.maximum(a, NEAR_K)
    far = fitted(x, series.decay(order), inverse, 0, 1 / NEAR_K) * x.sqrt(inverse * (math.pi / 2))
    result = x.select(a < NEAR_K, near * x.exp(a), far)
    return _with_pole(x, a, result, math.inf)


def _first_kind(x: Builder, a: Value, order: int) -> Value:
    return x.select(a < NEAR, _near_j(x, a, order), _far(x, a, order)[0])


def _near_j(x: Builder, a: Value, order: int) -> Value:
    near = fitted(x, series.first_kind(order, -1), a * a, 0, NEAR**2)
    return near * a if order else near


def _far(x: Builder, a: Value, order: int) -> tuple[Value, Value]:
    """J and Y of large arguments: a wave of slowly varying amplitude and phase."""
    inverse = 1 / x.maximum(a, NEAR)
    square = inverse * inverse
    in_phase = fitted(x, series.in_phase(order), square, 0, NEAR**-2)
    in_quadrature = fitted(x, series.in_quadrature(order), square, 0, NEAR**-2) * inverse
    sine, cosine = x.sin(a), x.cos(a)
    # The cosine and sine of a - pi / 4 - order * pi / 2, times sqrt(2).
    cosine, sine = (
        (cosine + sine, sine - cosine) if order == 0 else (sine - cosine, -(sine + cosine))
    )
    amplitude = x.sqrt(inverse * (1 / math.pi))
    j = amplitude * (in_phase * cosine - in_quadrature * sine)
    y = amplitude * (in_phase * sine + in_quadrature * cosine)
    return j, y


def _second_kind(x: Builder, a: Value, order: int) -> Value:
    rest = fitted(x, series.logarithmic_rest(order, -1), a * a, 0, NEAR**2)
    near = _log_of_half(x, a) * _near_j(x, a, order) * 2 - (rest * a if order else rest)
    near = near * (1 / math.pi)
    near = near - 2 / math.pi / a if order else near
    result = x.select(a < NEAR, near, _far(x, a, order)[1])
    return _with_pole(x, a, result, -math.inf)


def _log_of_half(x: Builder, a: Value) -> Value:
    """Of the smallest normal number too, whose half is none."""
    return x.log(a) - math.log(2)


def _with_pole(x: Builder, a: Value, result: Value, pole: float) -> Value:
    result = x.select(a < 0, math.nan, result)
    return x.select(a.eq(0), pole, result)
