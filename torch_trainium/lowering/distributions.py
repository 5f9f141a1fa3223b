"""Random words as numbers, by the formulas of docs/random.md, operation for operation."""

from __future__ import annotations

import math

import torch

from torch_trainium.lowering import threefry
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.values import Value

_LN2_HIGH = 0.693359375
_LN2_LOW = -2.12194440e-4
_SQRT_HALF = 0x3F3504F3
_LOG = (
    *(0.33333316445350647, -0.25000810623168945, 0.2000228613615036, -0.16624553501605988),
    *(0.14181196689605713, -0.13128767907619476, 0.12881621718406677, -0.07859545946121216),
)
_SINE = (1.5707963705062866, -0.6459634900093079, 0.07968022674322128, -0.004602177068591118)
_COSINE = (
    *(1.0, -1.2337005138397217, 0.25366920232772827, -0.02086007222533226),
    0.0009036316769197583,
)


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """What numbers of a dtype are computed in."""
    return torch.float64 if dtype is torch.float64 else torch.float32


def unit(x: Builder, dtype: torch.dtype, count: int) -> Value:
    """Numbers in [0, 1)."""
    if dtype is torch.float64:
        return x.shift_right(threefry.wide(x, count), 11).to(dtype) * 2.0**-53
    return x.shift_right(threefry.narrow(x, count), 8).to(torch.float32) * 2.0**-24


def log_of_unit(x: Builder, dtype: torch.dtype, count: int) -> Value:
    """The logarithm of numbers in (0, 1]."""
    if dtype is torch.float64:
        return x.log(open_unit_double(x, threefry.wide(x, count)))
    return _log(x, _open_unit(threefry.narrow(x, count)))


def normal(x: Builder, dtype: torch.dtype, count: int) -> Value:
    """Normally distributed, by pairs."""
    if dtype is torch.float64:
        words = threefry.wide(x, count + count % 2)
        pairs = x.reshape(words, [-1, 2])
        first, second = (x.reshape(x.slice_in_dim(pairs, 1, i, i + 1), [-1]) for i in (0, 1))
        radius = x.sqrt(x.log(open_unit_double(x, first)) * -2.0)
        angle = unit_double(x, second) * (2 * math.pi)
        sine, cosine = x.sin(angle), x.cos(angle)
    else:
        first, second = threefry.narrow_pairs(x, count)
        radius = x.sqrt(_log(x, _open_unit(first)) * -2.0)
        quadrant, rest = _split_phase(x, second)
        sine, cosine = _sine_cosine(x, rest.to(torch.float32) * 2.0**-30, quadrant)
    return threefry.interleave(x, (radius * cosine, radius * sine), count)


def cotangent(x: Builder, dtype: torch.dtype, count: int) -> Value:
    """Of pi times numbers in (0, 1)."""
    if dtype is torch.float64:
        return 1.0 / x.tan(open_unit_double(x, threefry.wide(x, count)) * math.pi)
    quadrant, rest = _split_phase(x, x.shift_right(threefry.narrow(x, count), 1))
    sine, cosine = _sine_cosine(x, (rest.to(torch.float32) + 0.5) * 2.0**-30, quadrant)
    return cosine / sine


def unit_double(x: Builder, words: Value) -> Value:
    """Of 64 bits, 53 as a number in [0, 1)."""
    return x.shift_right(words, 11).to(torch.float64) * 2.0**-53


def open_unit_double(x: Builder, words: Value) -> Value:
    """Of 64 bits, 52 as a number in (0, 1)."""
    return (x.shift_right(words, 12).to(torch.float64) + 0.5) * 2.0**-52


def multiply_high(x: Builder, a: Value, factor: int) -> Value:
    """The upper half of the double-width product of unsigned integers."""
    half = a.dtype.itemsize * 4
    mask = x.constant((1 << half) - 1, a.dtype)
    low, high = a & mask, x.shift_right(a, half)
    factor_low, factor_high = factor & ((1 << half) - 1), factor >> half
    middle = high * factor_low + x.shift_right(low * factor_low, half)
    other = low * factor_high + (middle & mask)
    return high * factor_high + x.shift_right(middle, half) + x.shift_right(other, half)


def _open_unit(words: Value) -> Value:
    return words.to(torch.float32) * 2.0**-32 + 2.0**-33


def _polynomial(a: Value, coefficients: tuple[float, ...]) -> Value:
    *lower, highest = coefficients
    total = a * highest + lower.pop()
    while lower:
        total = a * total + lower.pop()
    return total


def _log(x: Builder, a: Value) -> Value:
    bits = x.bitcast(a, torch.uint32) - _SQRT_HALF
    exponent = x.shift_right(x.bitcast(bits, torch.int32), 23).to(torch.float32)
    mantissa = (bits & x.constant(0x007FFFFF, torch.uint32)) + _SQRT_HALF
    f = x.bitcast(mantissa, torch.float32) - 1.0
    square = f * f
    tail = square * f * _polynomial(f, _LOG)
    tail = tail + exponent * _LN2_LOW
    tail = tail - square * 0.5
    return (f + tail) + exponent * _LN2_HIGH


def _split_phase(x: Builder, words: Value) -> tuple[Value, Value]:
    quadrant = x.shift_right(words + (1 << 29), 30)
    rest = words - x.shift_left(quadrant, 30)
    return quadrant, x.bitcast(rest, torch.int32)


def _sine_cosine(x: Builder, quarters: Value, quadrant: Value) -> tuple[Value, Value]:
    square = quarters * quarters
    sine, cosine = quarters * _polynomial(square, _SINE), _polynomial(square, _COSINE)
    swap = (quadrant & x.constant(1, torch.uint32)).ne(0)
    sine, cosine = x.select(swap, cosine, sine), x.select(swap, sine, cosine)
    return _with_sign(x, sine, quadrant), _with_sign(x, cosine, quadrant + 1)


def _with_sign(x: Builder, a: Value, quadrant: Value) -> Value:
    sign = x.shift_left(quadrant & x.constant(2, torch.uint32), 30)
    return x.bitcast(x.bitcast(a, torch.uint32) ^ sign, torch.float32)
