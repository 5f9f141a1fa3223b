"""Programs as they are made: which calls they are for, and what they consist of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from torch_trainium.eager import calls, plans
from torch_trainium.engines.programs import program_cache
from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dispatch, registry
from torch_trainium.lowering.call import Call, map_tensors
from torch_trainium.lowering.emitted import tokens_of
from torch_trainium.lowering.program import lower_operator
from torch_trainium.lowering.proofs import OPERATOR_DATABASE, Proofs
from torch_trainium.lowering.uses import use_of
from torch_trainium.lowering.windows import Window


@contextmanager
def noted_programs() -> Iterator[list[Call]]:
    """The calls that programs are made for within the block; each is noted once a process."""
    noted: list[Call] = []
    outer, calls.on_new_program = calls.on_new_program, noted.append
    try:
        yield noted
    finally:
        calls.on_new_program = outer


def record_program(found: Proofs, call: Call, check: str = OPERATOR_DATABASE) -> None:
    """Record what the program of a call consists of."""
    contents = _contents(call)
    if contents["dtypes"]:
        name = functional_name(call.overload)
        found.record(
            name,
            [getattr(torch, dtype) for dtype in contents["dtypes"]],
            contents["tokens"],
            use=use_of(name, call.arguments),
            is_trivial=contents["is_trivial"],
            check=check,
        )


def _contents(call: Call) -> dict[str, Any]:
    """What `_describe` finds, kept beside the plans: a second run lowers nothing."""
    cache = program_cache()
    name = f"{plans.plan_key(call, cache.fingerprint())}.contents"
    stored = cache.disk.read(name) if cache.disk is not None else None
    if stored is not None:
        contents: dict[str, Any] = json.loads(stored)
        return contents
    contents = _describe(call)
    if cache.disk is not None:
        cache.disk.write(name, json.dumps(contents).encode())
    return contents


def _describe(call: Call) -> dict[str, Any]:
    """Tokens of a program, dtypes of what it takes and makes, and whether it does anything."""
    plan = lower_operator(call)
    windows: list[Window] = []
    for argument in call.arguments.values():
        map_tensors(argument, lambda tensor: windows.append(tensor.window))
    windows += [result.window for result in plan.results if result.written is None]
    is_small = not windows or not windows[0].shape or not all(window.size for window in windows)
    return {
        "dtypes": [str(window.dtype).removeprefix("torch.") for window in windows],
        "tokens": sorted(tokens_of(plan.module)) if plan.module is not None else [],
        "is_trivial": plan.module is None or is_small,
    }


def functional_name(overload: Any) -> str:
    """The overload that proofs of this one are kept under."""
    functional = None
    with suppress(LoweringError):
        functional = dispatch.functional_form(overload)
    return registry.qualified_name(functional or overload)


def first_dtype(overload: Any, args: Any, kwargs: Any, results: Any) -> torch.dtype | None:
    """Of the first tensor that a call takes, or gives."""
    bound = list(dispatch.bind(overload, args, kwargs).values())
    leaves = tree_leaves((bound, results))
    return next((leaf.dtype for leaf in leaves if isinstance(leaf, torch.Tensor)), None)
