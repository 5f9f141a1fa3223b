"""What `torch.compile(backend="neuron", mode=..., options=...)` takes, and what it means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from torch_trainium.compile.passes import PASSES

# mode: what it means here. Others of PyTorch's are refused by name.
MODES: Mapping[str, str] = {
    "default": "one program for each graph",
    "reduce-overhead": "the same: a program is one launch, whatever it consists of",
}
REFUSED_MODES: Mapping[str, str] = {
    "max-autotune": "there is no choice of kernels to tune",
    "max-autotune-no-cudagraphs": "there is no choice of kernels to tune",
    "lite": "it is a mode of Inductor",
}


@dataclass(frozen=True)
class Options:
    """The keys of `options`.

    Attributes:
        fallback: "operator": an operator that is in no program runs by itself between two, as the
            fallback policy allows. "eager": the whole graph runs operator by operator. "error": it
            raises GraphCompileError.
        cpu_inputs: what happens to a CPU tensor that an operator of the device reads: it is
            copied with a warning ("warn"), without ("allow"), or raises ("error").
        max_programs: how many programs of different shapes are kept for one graph.
        buckets: the lengths that a size which varies may have; another raises BucketError. All
            when empty. `BucketCollator` pads to them.
        passes: which of `passes.PASSES` simplify a graph.
        debug_folder: where the graph is written if it cannot be compiled; a new temporary folder
            when empty.

    """

    fallback: str = "operator"
    cpu_inputs: str = "warn"
    max_programs: int = 64
    buckets: tuple[int, ...] = ()
    passes: tuple[str, ...] = tuple(PASSES)
    debug_folder: str = ""


def _one_of(*allowed: str) -> Callable[[Any], str]:
    return lambda value: "" if value in allowed else f"one of {', '.join(map(repr, allowed))}"


_CHECKS: Mapping[str, Callable[[Any], str]] = {
    "fallback": _one_of("operator", "eager", "error"),
    "cpu_inputs": _one_of("warn", "allow", "error"),
    "max_programs": lambda value: (
        "" if type(value) is int and value > 0 else "an integer from 1 on"
    ),
    "buckets": lambda value: (
        ""
        if isinstance(value, (list, tuple)) and all(type(n) is int and n > 0 for n in value)
        else "a list of integers from 1 on"
    ),
    "passes": lambda value: (
        ""
        if isinstance(value, (list, tuple)) and set(value) <= set(PASSES)
        else f"a list of some of {', '.join(map(repr, PASSES))}"
    ),
    "debug_folder": lambda value: "" if isinstance(value, str) else "a path",
}


def read(mode: str | None, options: Mapping[str, Any] | None) -> Options:
    """The options in force.

    Raises:
        ValueError: a mode, key or value that does not exist; the message lists those that do.

    """
    if mode is not None and mode not in MODES:
        reason = REFUSED_MODES.get(mode)
        why = f": {reason}" if reason else ""
        raise ValueError(
            f"torch.compile(backend='neuron') has no mode {mode!r}{why}; use one of "
            f"{', '.join(map(repr, MODES))}"
        )
    given = dict(options or {})
    known = [field.name for field in fields(Options)]
    for key, value in given.items():
        if key not in known:
            raise ValueError(
                f"torch.compile(backend='neuron') has no option {key!r}; there are "
                f"{', '.join(map(repr, known))}"
            )
        if allowed := _CHECKS[key](value):
            raise ValueError(f"option {key!r} is {allowed}, not {value!r}")
    if "buckets" in given:
        given["buckets"] = tuple(sorted(given["buckets"]))
    if "passes" in given:
        given["passes"] = tuple(given["passes"])
    return Options(**given)
