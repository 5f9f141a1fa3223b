"""CPU fallbacks: operators that the chip has no program for. They run on the host, and say so."""

import enum
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import torch

from torch_trainium import _C, config
from torch_trainium.errors import FallbackError, FallbackWarning
from torch_trainium.neuron.observe import user_frame

if TYPE_CHECKING:
    from torch_trainium._C.fallbacks import Policy

CLASSIFICATION = Path(config.__file__).parent / "lowering" / "data" / "classification.tsv"


class FallbackPolicy(enum.StrEnum):
    """What happens where an operator has no program on the chip.

    ALLOW: it runs on the CPU and is counted.
    WARN: the first time it warns as well, with the line of Python.
    ERROR: it raises FallbackError, before anything is written.
    """

    ALLOW = "allow"
    WARN = "warn"
    ERROR = "error"


class FallbackTotal(NamedTuple):
    """What the calls of one operator that ran on the CPU came to.

    Attributes:
        calls: how many.
        bytes_moved: between device and host, there and back.
        device_us: the time they took of the virtual clock, in microseconds.
        reason: why the first of them had no program.

    """

    calls: int
    bytes_moved: int
    device_us: float
    reason: str


_lock = threading.Lock()


def set_fallback(policy: FallbackPolicy | str, ops: Iterable[str] | None = None) -> None:
    """Let this happen where an operator has no program, in all threads.

    Args:
        policy: "allow", "warn" or "error"; TORCH_TRAINIUM_FALLBACK is the one a process starts in.
        ops: for these operators only: overloads such as "aten::sort.stable", or "aten::sort" for
            all of its overloads; for all, and none apart from them, when None.

    Raises:
        ValueError: there is no such policy, or no such operator.

    """
    chosen = _policy(policy)
    names = None if ops is None else _overloads(ops)
    with _lock:
        otherwise, of_operator = _C.fallbacks.policies()
        if names is None:
            _C.fallbacks.set_policies(chosen, {})
        else:
            _C.fallbacks.set_policies(otherwise, of_operator | dict.fromkeys(names, chosen))


@contextmanager
def fallback_is(policy: FallbackPolicy | str, ops: Iterable[str] | None = None) -> Iterator[None]:
    """The same within a `with` block, in all threads; then as before."""
    before = _C.fallbacks.policies()
    set_fallback(policy, ops)
    try:
        yield
    finally:
        with _lock:
            _C.fallbacks.set_policies(*before)


def fallbacks() -> dict[str, FallbackTotal]:
    """What ran on the CPU since the start of the process or the last reset, by operator."""
    return {
        name: FallbackTotal(calls, bytes_moved, device_ps / 1e6, reason)
        for name, (calls, bytes_moved, device_ps, reason) in _C.fallbacks.totals().items()
    }


def fallback_calls() -> dict[str, int]:
    """How often each operator ran on the CPU."""
    return {name: total.calls for name, total in fallbacks().items()}


def reset_fallbacks() -> None:
    """Start the counts of `fallbacks` again, and let operators that have warned warn again."""
    _C.fallbacks.reset_totals()


@contextmanager
def native_means_expressible() -> Iterator[None]:
    """Within the `with` block, let whatever has a lowering count as native, in all threads.

    For checks that prove lowerings by running them as programs, whether or not a chip takes
    those. What cannot be expressed falls back as ever.
    """
    _C.fallbacks.set_native_means_expressible(True)
    try:
        yield
    finally:
        _C.fallbacks.set_native_means_expressible(False)


def _start() -> None:
    """Begin with the policy of TORCH_TRAINIUM_FALLBACK, on the chip of the environment."""
    if machine := config.current().machine:
        classify_for(machine.chip)
    _C.fallbacks.set_voices(_warn, _raise)
    _C.fallbacks.set_policies(_policy(config.current()["TORCH_TRAINIUM_FALLBACK"]), {})


def classify_for(chip: str) -> None:
    """Let native mean what it means on this chip, such as "trn2", once a device is used."""
    _C.fallbacks.set_classification(str(CLASSIFICATION), chip)


def _policy(policy: FallbackPolicy | str) -> "Policy":
    if policy not in config.FALLBACK_POLICIES:
        allowed = ", ".join(map(repr, config.FALLBACK_POLICIES))
        raise ValueError(f"policy={policy!r} is no fallback policy; use one of {allowed}")
    return _C.fallbacks.Policy.__members__[str(policy)]


def _overloads(ops: Iterable[str]) -> list[str]:
    every = torch._C._dispatch_get_all_op_names()
    names: list[str] = []
    for name in [ops] if isinstance(ops, str) else ops:
        found = [known for known in every if name in (known, known.partition(".")[0])]
        if not found:
            raise ValueError(
                f"ops={name!r} is no operator; give names such as 'aten::sort', or "
                "'aten::sort.stable' for one overload"
            )
        names += found
    return names


def _warn(message: str) -> None:
    frame = user_frame()
    if frame is None:
        # A thread without Python, such as autograd's.
        warnings.warn(f"{message}. Called by autograd", FallbackWarning, stacklevel=1)
        return
    code = frame.f_code
    warnings.warn_explicit(
        f"{message}. Called at {code.co_filename}:{frame.f_lineno} ({code.co_name})",
        FallbackWarning,
        code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__"),
    )


def _raise(message: str) -> NoReturn:
    frame = user_frame()
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "autograd"
    raise FallbackError(f"{message}. Called at {where}")
