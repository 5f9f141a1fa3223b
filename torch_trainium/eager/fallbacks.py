"""CPU fallbacks: operators that no program can express. They run on the host, and say so."""

from __future__ import annotations

import enum
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from torch_trainium import config

_OWN_CODE = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))


class FallbackWarning(UserWarning):
    """An operator runs on the CPU because the device has no program for it."""


class Policy(enum.StrEnum):
    """What happens where an operator has no program.

    ALLOW: it runs on the CPU and is counted.
    WARN: the first time it warns as well, with the line of Python.
    ERROR: it raises LoweringError.
    """

    ALLOW = "allow"
    WARN = "warn"
    ERROR = "error"


class _State:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.policy: Policy | None = None  # None: what TORCH_TRAINIUM_FALLBACK says
        self.by_operator: dict[str, Policy] = {}
        self.calls: Counter[str] = Counter()


_state = _State()


def policy_of(name: str) -> Policy:
    """What happens to an operator such as "aten::sort"."""
    chosen = _state.by_operator.get(name) or _state.policy
    return chosen or Policy(config.current()["TORCH_TRAINIUM_FALLBACK"])


def set_fallback(policy: Policy | str, ops: Iterable[str] | None = None) -> None:
    """Let this happen where an operator has no program, in all threads.

    Args:
        policy: "allow", "warn" or "error".
        ops: for these operators only, such as "aten::sort"; for all when None.

    Raises:
        ValueError: there is no such policy.

    """
    policy = Policy(policy)
    with _state.lock:
        if ops is None:
            _state.policy = policy
            _state.by_operator.clear()
        else:
            _state.by_operator.update(dict.fromkeys(ops, policy))


@contextmanager
def fallback_is(policy: Policy | str, ops: Iterable[str] | None = None) -> Iterator[None]:
    """The same within a `with` block."""
    before, by_operator = _state.policy, dict(_state.by_operator)
    set_fallback(policy, ops)
    try:
        yield
    finally:
        with _state.lock:
            _state.policy, _state.by_operator = before, by_operator


def fallback_calls() -> dict[str, int]:
    """How often each operator ran on the CPU in this process."""
    return dict(_state.calls)


def fall_back(name: str, error: Exception) -> None:
    """Note that an operator runs on the CPU because of `error`, or raise it."""
    policy = policy_of(name)
    if policy is Policy.ERROR:
        raise error
    with _state.lock:
        _state.calls[name] += 1
        first = _state.calls[name] == 1
    if first and policy is Policy.WARN:
        where = user_line()
        message = f"{name} runs on the CPU: {error}. Called at {where}"
        warnings.warn(message, FallbackWarning, stacklevel=2)


def user_line() -> str:
    """The innermost line of Python that is neither PyTorch's nor this package's."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_OWN_CODE):
            return f"{code.co_filename}:{frame.f_lineno} ({code.co_name})"
        frame = frame.f_back  # type: ignore[assignment]
    return "a thread without Python, such as autograd's"
