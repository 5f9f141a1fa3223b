"""Runs a call and keeps what came of it: a value, or the exception it raised."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Said of a layout once in a process, by whoever first makes such a tensor.
_BETA = "is in beta state"


@dataclass
class Outcome:
    value: Any = None
    error: Exception | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def is_silent(self) -> bool:
        """Whether it is an exception without a message."""
        return self.error is not None and not str(self.error).strip()

    def __str__(self) -> str:
        if self.error is None:
            return "returned"
        text = str(self.error).strip().splitlines()
        return f"raised {type(self.error).__name__}: {text[0] if text else '(no message)'}"


def observe(call: Callable[[], Any]) -> Outcome:
    """The outcome of `call()`, with the categories of the warnings it gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = Outcome()
        try:
            outcome.value = call()
        except Exception as error:  # noqa: BLE001 - whatever is raised is compared
            outcome.error = error
    outcome.warnings = sorted({w.category.__name__ for w in caught if _BETA not in str(w.message)})
    return outcome


class SeededOperators(TorchDispatchMode):
    """Notes the operators that draw from a random generator.

    Devices draw different numbers from the same seed, so a call that uses one of these may
    differ between them in every value.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in getattr(func, "tags", ()):
            self.names.add(str(func))
        return func(*args, **(kwargs or {}))


def draws_random_numbers(call: Callable[[], Any]) -> bool:
    with SeededOperators() as mode:
        observe(call)
    return bool(mode.names)
