"""Every environment variable this package reads: one table, read once, validated."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torch_trainium.hardware import ConfigurationError, Machine, machine
from torch_trainium.hardware.environment import MAX_VISIBLE_DEVICES
from torch_trainium.hardware.profiles import DEFAULT_PROFILE, profile_names

PREFIX = "TORCH_TRAINIUM_"
EAGER_MODES = ("host", "compiled")
FALLBACK_POLICIES = ("allow", "warn", "error")
SANITIZERS = ("streams", "streams:error")
LOG_LEVELS = ("debug", "info", "warning", "error")

logger = logging.getLogger("torch_trainium")


@dataclass(frozen=True)
class Variable:
    """One environment variable; `parse` turns its text into a value or raises ValueError."""

    name: str
    type: str
    default: Any
    doc: str
    parse: Callable[[str], Any] = str


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("it is a switch: use 1 or 0")
    return text == "1"


def _log_level(text: str) -> str:
    if text.lower() not in LOG_LEVELS:
        raise ValueError(f"use one of {', '.join(LOG_LEVELS)}")
    return text.lower()


def _eager(text: str) -> str:
    if text not in EAGER_MODES:
        raise ValueError(f"use one of {', '.join(EAGER_MODES)}")
    return text


def _fallback(text: str) -> str:
    if text not in FALLBACK_POLICIES:
        raise ValueError(f"use one of {', '.join(FALLBACK_POLICIES)}")
    return text


def _cache(text: str) -> str:
    return "" if text == "0" else str(Path(text).expanduser())


def _bytes(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("use a number of bytes")
    return int(text)


def _profile(text: str) -> str:
    if text not in profile_names():
        raise ValueError(f"use one of {', '.join(profile_names())}")
    return text


def _sanitizer(text: str) -> str:
    if text not in SANITIZERS:
        raise ValueError(f"use one of {', '.join(SANITIZERS)}")
    return text


# The machine's variables keep their text here: `hardware.machine` reads them together,
# because what one of them may say depends on the others.
VARIABLES = (
    Variable(
        "TORCH_TRAINIUM_ENABLE",
        "switch",
        None,
        "1: make the neuron device available even beside another accelerator. 0: never. "
        "Unset: unless another accelerator or backend is present.",
        _switch,
    ),
    Variable(
        "TORCH_TRAINIUM_LOG",
        "level",
        "warning",
        f"What this package reports on stderr: {', '.join(LOG_LEVELS)}.",
        _log_level,
    ),
    Variable(
        "TORCH_TRAINIUM_LOG_OPS",
        "switch",
        False,
        "1: print every operator the device executes, with the line of Python that asked for it.",
        _switch,
    ),
    Variable(
        "TORCH_TRAINIUM_SANITIZER",
        "check",
        None,
        "streams: warn where streams, or a stream and the host, use the same memory and nothing "
        "orders them. streams:error: raise. Slow; for tests.",
        _sanitizer,
    ),
    Variable(
        "TORCH_TRAINIUM_INSTANCE",
        "instance type",
        None,
        "The instance or UltraServer to emulate; trn2.3xlarge (one Trainium2 chip) when unset.",
    ),
    Variable(
        "TORCH_TRAINIUM_PROFILE",
        "software profile",
        DEFAULT_PROFILE,
        f"The software whose overheads the device's times include; {DEFAULT_PROFILE} when unset.",
        _profile,
    ),
    Variable(
        "TORCH_TRAINIUM_EAGER",
        "mode",
        "host",
        "How eager operators run on the emulated device: host, by PyTorch's CPU kernels; compiled, "
        "each as a program of its own, as on hardware.",
        _eager,
    ),
    Variable(
        "TORCH_TRAINIUM_FALLBACK",
        "policy",
        "warn",
        "What happens where an operator has no program on the chip: it runs on the CPU (allow), "
        "warns the first time as well (warn), or raises (error).",
        _fallback,
    ),
    Variable(
        "TORCH_TRAINIUM_CACHE",
        "folder",
        str(Path("~/.cache/torch_trainium/programs").expanduser()),
        "Where compiled programs are kept for other processes; 0 keeps none.",
        _cache,
    ),
    Variable(
        "TORCH_TRAINIUM_CACHE_BYTES",
        "bytes",
        1 << 30,
        "How large that folder may grow.",
        _bytes,
    ),
    Variable(
        "TORCH_TRAINIUM_ENGINE_REWRITES",
        "switch",
        True,
        "1: compiled programs call PyTorch's kernels on the emulated device where those are faster "
        "than XLA's code. 0: never. Results differ by rounding, predicted times not at all.",
        _switch,
    ),
    Variable(
        "TORCH_TRAINIUM_HBM_BYTES",
        "bytes",
        None,
        "Size of each HBM stack, at most the chip's; the chip's when unset.",
    ),
    Variable(
        "TORCH_TRAINIUM_GUARD",
        "switch",
        None,
        "1: host code that touches device memory faults instead of reading it.",
    ),
    Variable(
        "NEURON_RT_VISIBLE_CORES",
        "core list",
        None,
        "Logical cores this process sees, such as 0-3 or 0,2; when unset all, at most 127.",
    ),
    Variable(
        "NEURON_RT_NUM_CORES",
        "count",
        None,
        "How many logical cores this process sees where NEURON_RT_VISIBLE_CORES is unset; 0: all.",
    ),
    Variable(
        "NEURON_LOGICAL_NC_CONFIG",
        "count",
        None,
        "Physical cores behind one logical core: 1, or 2 when unset.",
    ),
    Variable(
        "NEURON_RT_VIRTUAL_CORE_SIZE",
        "count",
        None,
        "Older name of NEURON_LOGICAL_NC_CONFIG.",
    ),
)


@dataclass(frozen=True)
class Config(Mapping[str, Any]):
    """The settings in force, by variable; `print` shows them with their documentation.

    Attributes:
        settings: the value of each variable of `VARIABLES`.
        given: the variables that are set.
        chosen: those of them that the program sets, not the environment.
        machine: the devices this process sees, or None where `error` says why not.
        error: what is wrong with the environment, empty where nothing is.

    """

    settings: Mapping[str, Any]
    given: frozenset[str]
    machine: Machine | None
    error: str = ""
    chosen: frozenset[str] = frozenset()

    def __getitem__(self, name: str) -> Any:
        return self.settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.settings)

    def __len__(self) -> int:
        return len(self.settings)

    def __str__(self) -> str:
        lines = [f"error: {self.error}"] if self.error else []
        lines += [f"machine: {self.machine}"] if self.machine else []
        for variable in VARIABLES:
            value = self.settings[variable.name]
            origin = "environment" if variable.name in self.given else "default"
            origin = "program" if variable.name in self.chosen else origin
            shown = "unset" if value is None else value
            lines.append(f"{variable.name} = {shown} ({variable.type}, {origin})")
            lines.append(f"    {variable.doc}")
        return "\n".join(lines)


def read(environ: Mapping[str, str], chosen: Mapping[str, str] | None = None) -> Config:
    """The settings that `environ` describes, with those of `chosen` in their place.

    Never raises for what they say.
    """
    environ = {**environ, **(chosen or {})}
    given = {v.name: environ[v.name].strip() for v in VARIABLES if environ.get(v.name, "").strip()}
    settings: dict[str, Any] = {}
    errors: list[str] = []
    for variable in VARIABLES:
        settings[variable.name] = variable.default
        if variable.name in given:
            try:
                settings[variable.name] = variable.parse(given[variable.name])
            except ValueError as error:
                errors.append(f"{variable.name}={given[variable.name]!r} cannot be used: {error}.")
    found: Machine | None = None
    try:
        found = machine(environ)
    except ConfigurationError as error:
        errors.append(str(error))
    return Config(
        settings,
        frozenset(given),
        None if errors else found,
        " ".join(errors),
        frozenset(chosen or {}),
    )


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """A sentence for each TORCH_TRAINIUM_* variable that nothing here reads."""
    known = [v.name.removeprefix(PREFIX) for v in VARIABLES if v.name.startswith(PREFIX)]
    sentences = []
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name.removeprefix(PREFIX) in known:
            continue
        from difflib import get_close_matches

        near = get_close_matches(name.removeprefix(PREFIX), known, n=1)
        listed = ", ".join(PREFIX + suffix for suffix in known)
        hint = f"did you mean {PREFIX}{near[0]}?" if near else f"known are {listed}."
        sentences.append(f"{name} is no variable of torch-trainium and has no effect; {hint}")
    return sentences


def hidden_cores(settings: Config) -> list[str]:
    """A sentence where a process that asked for all cores of its server does not see all."""
    seen = settings.machine
    num_cores = settings["NEURON_RT_NUM_CORES"]
    asked = "NEURON_RT_VISIBLE_CORES" in settings.given or num_cores not in (None, "0")
    if seen is None or asked or seen.device_count == seen.core_count:
        return []
    return [
        f"{seen.instance_type} has {seen.core_count} logical cores and PyTorch can address "
        f"{MAX_VISIBLE_DEVICES} devices: this process sees cores 0 to {seen.cores[-1]}; "
        "NEURON_RT_VISIBLE_CORES chooses others"
    ]


@cache
def environment() -> Mapping[str, str]:
    """The variables of `VARIABLES` that were set when this package first looked."""
    return {v.name: os.environ[v.name] for v in VARIABLES if v.name in os.environ}


_current: Config | None = None


def current() -> Config:
    """The settings of this process, read on the first call.

    They are fixed from then on, but for the machine, which `torch.neuron.set_instance` chooses.
    """
    global _current
    if _current is None:
        _current = read(environment())
    return _current


def replace_current(settings: Config) -> None:
    """Make `settings` those of this process."""
    global _current
    _current = settings


def configure_logging() -> None:
    """Send this package's log to stderr from the level TORCH_TRAINIUM_LOG names."""
    level = current()["TORCH_TRAINIUM_LOG"]
    logger.setLevel(level.upper())
    if "TORCH_TRAINIUM_LOG" in current().given and not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("[torch_trainium] %(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
