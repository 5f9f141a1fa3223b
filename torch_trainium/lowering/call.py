"""One use of an operator, without its data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch_trainium.engines.engine import Number
from torch_trainium.lowering.windows import Window


@dataclass(frozen=True)
class Call:
    """One use of an operator, without its data.

    Attributes:
        overload: the operator.
        arguments: by the schema's names, with tensors as (position, Window) in a `Tensor`, and
            numbers that the program takes when it runs as `Scalar`.
        numbers: what those numbers are this time; a program does not depend on them.

    """

    overload: Any
    arguments: dict[str, Any]
    numbers: tuple[Number, ...]


@dataclass(frozen=True)
class Tensor:
    """A tensor argument: which of the call's tensors, and where its elements lie."""

    position: int
    window: Window


def map_tensors(argument: Any, convert: Callable[[Tensor], Any]) -> Any:
    """An argument with its tensors replaced."""
    if isinstance(argument, Tensor):
        return convert(argument)
    if isinstance(argument, (list, tuple)):
        return [map_tensors(item, convert) for item in argument]
    return argument


def tensors_of(names: Iterable[str], arguments: dict[str, Any]) -> list[Tensor]:
    """The tensors among some arguments, in order."""
    found: list[Tensor] = []
    for name in names:
        map_tensors(arguments[name], found.append)
    return found
