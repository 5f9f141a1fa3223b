"""What PyTorch expects of an accelerator beyond operators, one file for each feature.

Every function `test_*` is a case; it takes the device type and fails by raising.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache

import pytest
import torch

from ..case import Case, Result, Skip

SUITE = "behaviour"


@cache
def _functions() -> dict[tuple[str, str], Callable[[str], None]]:
    found = {}
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for name, function in vars(module).items():
            if name.startswith("test_"):
                found[module_info.name, name.removeprefix("test_")] = function
    return found


def cases(device: str) -> Iterator[Case]:
    for feature, name in _functions():
        yield Case(SUITE, name, feature)


def run(case: Case, device: str, result: Result) -> None:
    if torch.device(device).type == "cpu":
        raise Skip("the CPU is not an accelerator")
    try:
        _functions()[case.check, case.name](device)
    except pytest.fail.Exception as failure:  # not an Exception: pytest means it for itself
        raise AssertionError(str(failure)) from failure
    result.samples += 1
