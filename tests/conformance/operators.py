"""The operator databases: operators, custom operators and autograd functions, every check."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch.testing._internal.autograd_function_db import autograd_function_db
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.custom_op_db import custom_op_db

from .case import Case, Result
from .checks import CHECKS
from .checks.registry import NO_DTYPE

SUITE = "ops"


@cache
def operators() -> dict[str, Any]:
    return {op.full_name: op for op in (*op_db, *custom_op_db, *autograd_function_db)}


def cases(device: str) -> Iterator[Case]:
    for name, op in operators().items():
        for check in CHECKS.values():
            for dtype in check.dtype_names(op, device):
                yield Case(SUITE, name, check.name, dtype)


def run(case: Case, device: str, result: Result) -> None:
    dtype = NO_DTYPE[0] if case.dtype == "-" else getattr(torch, case.dtype)
    CHECKS[case.check].body(operators()[case.name], device, dtype, result)


def sample(device: str) -> Iterator[Case]:
    """One dtype for every operator, forward and backward: the part that `make test` runs."""
    for name, op in operators().items():
        supported = {str(d).removeprefix("torch.") for d in op.supported_dtypes(device)}
        if not supported:
            continue
        dtype = next(
            d for d in ("float32", "complex64", "int64", *sorted(supported)) if d in supported
        )
        yield Case(SUITE, name, "forward", dtype)
        if dtype in CHECKS["backward"].dtype_names(op, device):
            yield Case(SUITE, name, "backward", dtype)
