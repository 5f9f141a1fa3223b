"""Which way the device runs eager operators: on the host engine, or as compiled programs."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from torch_trainium import _C
from torch_trainium.eager import calls, data_dependent
from torch_trainium.engines.programs import program_cache
from torch_trainium.errors import LoweringError


class EagerMode(enum.StrEnum):
    """How eager operators run; TORCH_TRAINIUM_EAGER gives the mode a process starts in.

    HOST: by PyTorch's CPU kernels on the emulated memory.
    COMPILED: each as a program of its own, as on hardware.
    """

    HOST = "host"
    COMPILED = "compiled"


_mode = EagerMode.HOST
# While operators are programs.
_composites: torch.library.Library | None = None


def eager_mode() -> EagerMode:
    """The mode in force."""
    return _mode


def set_eager_mode(mode: EagerMode | str) -> None:
    """Run operators this way from now on, in all threads.

    Raises:
        ValueError: there is no such mode.
        CompilerUnavailableError: there is no compiler for the device.

    """
    global _mode, _composites
    mode = EagerMode(mode)
    if mode is _mode:
        return
    _mode = mode
    if mode is EagerMode.COMPILED:
        _C.programs.set_provider(_programs_of)
        _composites = data_dependent.register_kernels()
        program_cache()  # where there is no compiler, this says so
    elif _composites is not None:
        _composites._destroy()  # type: ignore[no-untyped-call]
        _composites = None
        _C.programs.set_provider(None)


@contextmanager
def eager_mode_is(mode: EagerMode | str) -> Iterator[None]:
    """Run operators this way within a `with` block, then as before."""
    before = eager_mode()
    set_eager_mode(mode)
    try:
        yield
    finally:
        set_eager_mode(before)


def _programs_of(name: str) -> tuple[Callable[[Sequence[Any]], Any], list[bool]]:
    """What prepares calls or says why not, and of each argument whether it takes numbers at run."""
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    found = getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
    try:
        operator = calls.operator(found)
    except LoweringError as refusal:  # whatever its arguments are
        reason = str(refusal)
        return lambda arguments: reason, []

    def prepared(arguments: Sequence[Any]) -> calls.PreparedCall | str:
        try:
            return operator.prepare(arguments)
        except LoweringError as refusal:
            return str(refusal)

    return prepared, operator.takes_numbers
