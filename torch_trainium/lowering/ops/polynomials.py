"""Orthogonal polynomials of an order that each element has for itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.pointwise import pointwise
from torch_trainium.lowering.values import Value

aten = torch.ops.aten

# P(k + 1) of the argument, k, P(k) and P(k - 1).
Recurrence = Callable[[Value, Value, Value, Value], Value]


def _chebyshev(a: Value, k: Value, current: Value, previous: Value) -> Value:
    return 2 * a * current - previous


def _hermite(a: Value, k: Value, current: Value, previous: Value) -> Value:
    return 2 * a * current - 2 * k * previous


def _hermite_of_probability(a: Value, k: Value, current: Value, previous: Value) -> Value:
    return a * current - k * previous


def _laguerre(a: Value, k: Value, current: Value, previous: Value) -> Value:
    return ((2 * k + 1 - a) * current - k * previous) / (k + 1)


def _legendre(a: Value, k: Value, current: Value, previous: Value) -> Value:
    return ((2 * k + 1) * a * current - k * previous) / (k + 1)


# P(1), and the recurrence; P(0) is 1.
POLYNOMIALS: dict[Any, tuple[Callable[[Value], Value], Recurrence]] = {
    aten.special_chebyshev_polynomial_t: (lambda a: a, _chebyshev),
    aten.special_chebyshev_polynomial_u: (lambda a: 2 * a, _chebyshev),
    aten.special_chebyshev_polynomial_v: (lambda a: 2 * a - 1, _chebyshev),
    aten.special_chebyshev_polynomial_w: (lambda a: 2 * a + 1, _chebyshev),
    aten.special_hermite_polynomial_h: (lambda a: 2 * a, _hermite),
    aten.special_hermite_polynomial_he: (lambda a: a, _hermite_of_probability),
    aten.special_laguerre_polynomial_l: (lambda a: 1 - a, _laguerre),
    aten.special_legendre_polynomial_p: (lambda a: a, _legendre),
}

# The same polynomials of 2 * a - 1.
SHIFTED = {
    aten.special_shifted_chebyshev_polynomial_t: aten.special_chebyshev_polynomial_t,
    aten.special_shifted_chebyshev_polynomial_u: aten.special_chebyshev_polynomial_u,
    aten.special_shifted_chebyshev_polynomial_v: aten.special_chebyshev_polynomial_v,
    aten.special_shifted_chebyshev_polynomial_w: aten.special_chebyshev_polynomial_w,
}

# Beyond these orders PyTorch gives no Hermite polynomial.
_HIGHEST_HERMITE = {torch.float32: 128, torch.float64: 512}


def _polynomial(packet: Any, plain: Any, shifted: bool) -> None:
    first, recurrence = POLYNOMIALS[plain]

    @pointwise(packet.default, packet.x_scalar, packet.n_scalar, result="float")
    def polynomial(x: Builder, a: Value, n: Value) -> Value:
        order = n.to(torch.int32).to(n.dtype)
        a, order = x.broadcast_together(2 * a - 1 if shifted else a, order)
        result = _evaluate(x, a, order, first(a), recurrence)
        if recurrence in (_hermite, _hermite_of_probability):
            result = x.select(order > _HIGHEST_HERMITE[a.dtype], math.nan, result)
        return result


def _evaluate(x: Builder, a: Value, n: Value, first: Value, recurrence: Recurrence) -> Value:
    """P(n), one order more in every round; elements that have reached theirs stay."""

    def unfinished(a: Value, n: Value, k: Value, current: Value, previous: Value) -> Value:
        return x.any(n > k)

    def step(a: Value, n: Value, k: Value, current: Value, previous: Value) -> list[Value]:
        goes_on = n > k
        following = recurrence(a, k, current, previous)
        current, previous = (
            x.select(goes_on, following, current),
            x.select(goes_on, current, previous),
        )
        return [a, n, k + 1, current, previous]

    one = x.constant(1, a.dtype, a.shape)
    current = x.while_([a, n, x.constant(1, a.dtype), first, one], unfinished, step)[3]
    return x.select(n < 0, 0, x.select(n.eq(0), 1, current))


for _packet in POLYNOMIALS:
    _polynomial(_packet, _packet, shifted=False)
for _packet, _plain in SHIFTED.items():
    _polynomial(_packet, _plain, shifted=True)
