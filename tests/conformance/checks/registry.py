"""A check: which operators and dtypes it applies to, where its samples come from, what it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..case import Result, Skip
from ..differential import Differential, Probe
from ..outcome import observe

Samples = Callable[[Any, str, torch.dtype], Iterable[Any]]
Body = Callable[[Any, str, torch.dtype, Result], None]
DtypePolicy = Callable[[Any, str], Iterable[torch.dtype]]
NO_DTYPE = (torch.float32,)


@dataclass(frozen=True)
class Check:
    """`dtypes` is None for a check that runs once per operator."""

    name: str
    applies: Callable[[Any], bool]
    dtypes: DtypePolicy | None
    body: Body
    letter: str

    def dtype_names(self, op: Any, device: str) -> Iterator[str]:
        if not self.applies(op):
            return
        if self.dtypes is None:
            yield "-"
        else:
            yield from sorted(str(d).removeprefix("torch.") for d in self.dtypes(op, device))


CHECKS: dict[str, Check] = {}


def always(op: Any) -> bool:
    return True


def all_dtypes(op: Any, device: str) -> Iterable[torch.dtype]:
    return set(op.supported_dtypes(device))


def only(*dtypes: torch.dtype) -> DtypePolicy:
    """Those of `dtypes` that the operator supports, or else one that it does support."""

    def policy(op: Any, device: str) -> Iterable[torch.dtype]:
        supported = set(op.supported_dtypes(device))
        chosen = supported & set(dtypes)
        return chosen or sorted(supported, key=str)[:1]

    return policy


def sample_inputs(op: Any, device: str, dtype: torch.dtype) -> Iterable[Any]:
    return op.sample_inputs(device, dtype)


def _made(samples: Samples, op: Any, device: str, dtype: torch.dtype) -> Iterator[Any]:
    """The samples; where the database cannot make them on the CPU either, there are none."""
    try:
        yield from samples(op, device, dtype)
    except Exception as error:
        on_cpu = observe(lambda: list(samples(op, "cpu", dtype)))
        if type(on_cpu.error) is not type(error):
            raise
        raise Skip(f"the CPU {on_cpu}") from error


def body_check(
    name: str, letter: str, *, applies: Callable[[Any], bool] = always, dtypes: DtypePolicy | None
) -> Callable[[Body], Body]:
    """Registers a function (op, device, dtype, result) as a check."""

    def register(body: Body) -> Body:
        CHECKS[name] = Check(name, applies, dtypes, body, letter)
        return body

    return register


def probe_check(
    name: str,
    letter: str,
    *,
    dtypes: DtypePolicy,
    applies: Callable[[Any], bool] = always,
    samples: Samples = sample_inputs,
    aliasing: bool = False,
    inputs_after: bool = False,
) -> Callable[[Probe], Probe]:
    """Registers a probe as a check that compares the device with the CPU on every sample."""

    def register(probe: Probe) -> Probe:
        def body(op: Any, device: str, dtype: torch.dtype, result: Result) -> None:
            differential = Differential(
                result, device, op, aliasing=aliasing, inputs_after=inputs_after
            )
            differential.run(_made(samples, op, device, dtype), probe)

        CHECKS[name] = Check(name, applies, dtypes, body, letter)
        return probe

    return register
