"""The numbers a program takes when it runs, and what the host gives for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch

from torch_trainium.lowering.values import Number

Part = Literal["whole", "complement", "seed_low", "seed_high", "offset_low", "offset_high"]

# The words of the random state that a program with random numbers takes, all of them or none.
RANDOM_PARTS: tuple[Part, ...] = ("seed_low", "seed_high", "offset_low", "offset_high")
_WORD = (1 << 32) - 1


class NumberArgument(NamedTuple):
    """One number that a program takes.

    Attributes:
        index: which of the call's numbers; -1 for a word of the random state.
        dtype: what it is converted to.
        part: the number itself, one minus it in double precision, or which word.

    """

    index: int
    dtype: torch.dtype
    part: Part = "whole"


def host_values(
    arguments: Sequence[NumberArgument],
    numbers: Sequence[Number],
    stream: tuple[int, int] | None = None,
) -> list[Number]:
    """What to run a program with.

    Args:
        arguments: what the program takes.
        numbers: the call's numbers.
        stream: seed and offset of the random numbers, where the program draws any.

    """
    words = _words(stream) if stream is not None else {}
    return [
        words[a.part] if a.index < 0 else _convert(_part(numbers[a.index], a.part), a.dtype)
        for a in arguments
    ]


def _words(stream: tuple[int, int]) -> dict[Part, int]:
    seed, offset = stream
    return dict(
        zip(RANDOM_PARTS, (seed & _WORD, seed >> 32, offset & _WORD, offset >> 32), strict=True)
    )


def _part(number: Number, part: Part) -> Number:
    return 1 - number if part == "complement" else number


def _convert(number: Number, dtype: torch.dtype) -> Number:
    if dtype.is_complex:
        return complex(number)
    if dtype.is_floating_point:
        assert not isinstance(number, complex)
        return float(number)
    if dtype is torch.bool:
        return bool(number)
    assert not isinstance(number, complex)
    return int(number)
