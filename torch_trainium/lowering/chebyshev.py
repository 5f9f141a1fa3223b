"""Functions that StableHLO lacks, as Chebyshev series fitted when a program is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.values import Value

# Of NumPy arrays of float64.
Function = Callable[[Any], Any]


def fitted(
    x: Builder, function: Function, a: Value, low: float, high: float, degree: int = 28
) -> Value:
    """A smooth function on [low, high], whose float64 values `function` computes.

    Outside of the interval the result means nothing.
    """
    position = (x.clamp(low, a, high) - low) * (2 / (high - low)) - 1
    return clenshaw(x, coefficients(function, low, high, degree), position)


@cache
def coefficients(function: Function, low: float, high: float, degree: int) -> tuple[float, ...]:
    """Of the polynomial that agrees with the function at the Chebyshev points."""
    import numpy
    from numpy.polynomial import chebyshev

    found = chebyshev.chebinterpolate(
        lambda t: function(low + (numpy.asarray(t) + 1) * (high - low) / 2), degree
    )
    return tuple(float(c) for c in found)


def clenshaw(x: Builder, series: Sequence[float], position: Value) -> Value:
    """A Chebyshev series at positions in [-1, 1]."""
    zero = x.constant(0, position.dtype, position.shape)
    current, previous = zero, zero
    for coefficient in reversed(series[1:]):
        current, previous = position * 2 * current - previous + coefficient, current
    return position * current - previous + series[0]
