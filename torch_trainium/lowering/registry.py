"""The one registry of lowerings: `@lower(aten.addmm)` above a function is all there is to do.

Reading it loads no jaxlib.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Lowering:
    """How one overload becomes StableHLO.

    Attributes:
        name: the qualified overload, such as "aten::add.Tensor".
        function: takes a builder and the overload's arguments, returns its results.
        static: number arguments that the program depends on; the others it takes when it runs.
        family: the module that defines it.
        keywords: the parameters that `function` takes by keyword, or None if any.

    """

    name: str
    function: Callable[..., Any]
    static: frozenset[str]
    family: str
    keywords: frozenset[str]


_TABLE: dict[str, Lowering] = {}


def lower(*overloads: Any, static: Iterable[str] = ()) -> Callable[[Function], Function]:
    """Register a function as the lowering of some functional overloads.

    The function gets a builder, then the overload's arguments with defaults filled in: tensors as
    `Value`, numbers (schema types Scalar and float) as `Scalar`, which `x.number(scalar, dtype)`
    makes a value of, everything else as it is. Arguments that it names after `*` are passed by
    keyword, the others in the schema's order. Trailing arguments it does not name must have their
    default when it is called, else the user gets an error that names the argument.

    Args:
        overloads: `aten.add.Tensor`, or a packet with one overload, `aten.relu`.
        static: number arguments that reach the function as Python numbers, because the program
            depends on them.

    """
    static = frozenset(static)

    def register(function: Function) -> Function:
        keywords = frozenset(
            name
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        )
        for overload in overloads:
            if isinstance(overload, torch._ops.OpOverloadPacket):
                overload = overload.default
            name = qualified_name(overload)
            if name in _TABLE:
                raise ValueError(f"{name} has two lowerings: {_TABLE[name].family} has another")
            family = function.__module__.rpartition(".")[2]
            _TABLE[name] = Lowering(name, function, static, family, keywords)
        return function

    return register


def qualified_name(overload: Any) -> str:
    """ "aten::add.Tensor"; the default overload has no suffix."""
    return str(overload._schema.name) + (
        f".{overload._schema.overload_name}" if overload._schema.overload_name else ""
    )


def find(overload: Any) -> Lowering | None:
    """The lowering of an overload itself, without decompositions or derived forms."""
    return table().get(overload.name() if hasattr(overload, "name") else str(overload))


@cache
def table() -> dict[str, Lowering]:
    """Every lowering, by qualified name."""
    from torch_trainium.lowering import ops

    ops.load()
    return _TABLE
