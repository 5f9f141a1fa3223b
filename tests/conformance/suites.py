"""The suites, by name, and how a case finds its body."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from . import behaviour, modules, operators, optimizers
from .case import Case, Result

SUITES = {suite.SUITE: suite for suite in (operators, modules, optimizers, behaviour)}


def prepare(device: str) -> None:
    """Makes the device known in the parent without touching it."""
    if device.partition(":")[0] == "neuron":
        importlib.import_module("torch_trainium")


def cases(device: str) -> Iterator[Case]:
    for suite in SUITES.values():
        yield from suite.cases(device)


def sample(device: str) -> Iterator[Case]:
    yield from operators.sample(device)


def run(device: str, case: Case, result: Result) -> None:
    SUITES[case.suite].run(case, device, result)
