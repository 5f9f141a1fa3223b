"""The numbers a program takes when it runs, and what the host computes them from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from torch_trainium.lowering.dtypes import ELEMENT_TYPES
from torch_trainium.lowering.values import Number


class NumberArgument(NamedTuple):
    """One number that a program takes.

    Attributes:
        sources: which of the call's numbers it is computed from.
        dtype: what it is converted to.
        function: how, a key of `HOST_FUNCTIONS`; or of `RANDOM_WORDS`, without sources.

    """

    sources: tuple[int, ...]
    dtype: torch.dtype
    function: str = "itself"


def host_values(
    arguments: Sequence[NumberArgument],
    numbers: Sequence[Number],
    stream: tuple[int, int] = (0, 0),
) -> list[Number]:
    """What to run a program with.

    Args:
        arguments: what the program takes.
        numbers: the call's numbers.
        stream: seed and offset of the random numbers; anything where none are drawn.

    Raises:
        RuntimeError: the operator does not take such a number.

    """
    values: list[Number] = []
    for sources, dtype, function in arguments:
        if function == "itself":
            values.append(_convert(numbers[sources[0]], dtype))
        elif sources:
            taken = HOST_FUNCTIONS[function](*(numbers[source] for source in sources))
            values.append(_convert(taken, dtype))
        else:
            values.append(RANDOM_WORDS[function](*stream))
    return values


def host_value(argument: NumberArgument, numbers: Sequence[Number]) -> Number:
    """One of them, from its sources."""
    return _convert(HOST_FUNCTIONS[argument.function](*numbers), argument.dtype)


def _convert(number: Number, dtype: torch.dtype) -> Number:
    if dtype.is_complex:
        return complex(number)
    if dtype is torch.bool:
        return bool(number)
    if isinstance(number, complex):
        number = number.real
    if dtype.is_floating_point:
        return float(number)
    if isinstance(number, float) and not math.isfinite(number):
        return 0
    return int(number)


def fits(dtype: torch.dtype) -> str:
    """The host function that refuses numbers `dtype` cannot hold, as where PyTorch stores them.

    Unsigned integers take negative numbers of their width, and floats infinities.
    """
    return f"fits_{str(dtype).removeprefix('torch.')}"


# The dtypes that those functions are for.
FITTED = {fits(dtype): dtype for dtype in ELEMENT_TYPES}


def _fitting(number: Number, dtype: torch.dtype) -> Number:
    torch.full((2,), number, dtype=dtype, device="cpu")  # two: one half-width float may overflow
    return number


_WORD = (1 << 32) - 1

# The random state, in words of 32 bits: a program with random numbers takes them all.
RANDOM_WORDS: dict[str, Callable[[int, int], int]] = {
    "seed_low": lambda seed, offset: seed & _WORD,
    "seed_high": lambda seed, offset: seed >> 32,
    "offset_low": lambda seed, offset: offset & _WORD,
    "offset_high": lambda seed, offset: offset >> 32,
}


def _expect(holds: bool, message: str) -> None:
    if not holds:
        raise RuntimeError(message)


def _range(low: float, high: float) -> float:
    _expect(
        low <= high,
        f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}",
    )
    return high - low


def _below(bound: float, low: float, dtype: torch.dtype) -> float:
    rounded = torch.tensor(bound, dtype=dtype)
    if rounded.item() >= bound:
        rounded = torch.nextafter(rounded, torch.tensor(-math.inf, dtype=dtype))
    return max(float(rounded), torch.tensor(low, dtype=dtype).item())


def _deviation(std: float) -> float:
    _expect(std >= 0, f"normal expects std >= 0.0, but found std {std:g}")
    return std


def _log_deviation(std: float) -> float:
    _expect(std > 0, f"log_normal_ expects std > 0.0, but found std={std:g}")
    return std


def _mean_of_exponential(rate: float) -> float:
    _expect(rate > 0, f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
    return -1 / rate


def _cauchy_scale(sigma: float) -> float:
    _expect(sigma > 0, f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    return sigma


def _geometric_scale(p: float) -> float:
    _expect(0 < p < 1, f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    return 1 / math.log1p(-p)


def _words_below(p: float) -> int:
    _expect(0 <= p <= 1, f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    return int(p * 2**32 + 0.5)


def _kept(p: float) -> float:
    _expect(0 <= p <= 1, f"native_dropout expects p to be in [0, 1], but got p={p:g}")
    return 1 - p


def _slope_range(low: float, high: float) -> float:
    _expect(
        low <= high,
        f"rrelu_with_noise expects lower <= upper, but got lower={low:g} and upper={high:g}",
    )
    return high - low


HOST_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "itself": lambda a: a,
    **{name: partial(_fitting, dtype=dtype) for name, dtype in FITTED.items()},
    "complement": lambda a: 1 - a,
    "half_sum": lambda a, b: (a + b) / 2,
    "uniform_range": _range,
    "below_float64": lambda bound, low: _below(bound, low, torch.float64),
    "below_float32": lambda bound, low: _below(bound, low, torch.float32),
    "below_float16": lambda bound, low: _below(bound, low, torch.float16),
    "below_bfloat16": lambda bound, low: _below(bound, low, torch.bfloat16),
    "deviation": _deviation,
    "deviation_of_part": lambda std: _deviation(std) / math.sqrt(2),
    "log_deviation": _log_deviation,
    "mean_of_exponential": _mean_of_exponential,
    "cauchy_scale": _cauchy_scale,
    "geometric_scale": _geometric_scale,
    # An event of probability p: whether any word is one, and the largest that is.
    "is_possible": lambda p: _words_below(p) > 0,
    "last_word": lambda p: max(_words_below(p) - 1, 0),
    "is_ever_kept": lambda p: _words_below(_kept(p)) > 0,
    "last_kept_word": lambda p: max(_words_below(_kept(p)) - 1, 0),
    "dropout_scale": lambda p: 1 / _kept(p) if p != 1 else 0.0,
    "slope_range": _slope_range,
}
