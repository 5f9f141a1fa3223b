"""How operators' programs are run, on disk: a process that finds a plan writes no program anew.

A plan is the JSON of an `OperatorProgram` without its module, under a key of everything that the
lowering reads. It names its program, which is an entry of its own, shared by equal ones.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from torch_trainium.engines.engine import Buffer, Signature
from torch_trainium.lowering import dtypes, registry
from torch_trainium.lowering.call import Call
from torch_trainium.lowering.numbers import HOST_FUNCTIONS, RANDOM_WORDS, NumberArgument
from torch_trainium.lowering.program import Given, OperatorProgram, Result
from torch_trainium.lowering.windows import Window

_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in dtypes.ELEMENT_TYPES}
_ELEMENTS = frozenset(dtypes.ELEMENT_TYPES.values())
# What a program's checks raise.
_ERRORS: dict[str, type[Exception]] = {
    error.__name__: error for error in (IndexError, RuntimeError, ValueError, LinAlgError)
}
_NUMBER_FUNCTIONS = frozenset((*HOST_FUNCTIONS, *RANDOM_WORDS))


def plan_key(call: Call, engine: str) -> str:
    """Everything that a call's plan depends on, as a hexadecimal number.

    Args:
        call: the call; its numbers do not matter.
        engine: the fingerprint of the engine that its program is for.

    """
    parts = (lowering_fingerprint(), engine, registry.qualified_name(call.overload), call.arguments)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def operator_key(overload: Any) -> str:
    """Everything that the rules of an overload's calls depend on, as a hexadecimal number."""
    parts = (lowering_fingerprint(), registry.qualified_name(overload))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def encoded_flags(flags: list[bool]) -> bytes:
    """One flag for each argument of an overload."""
    return json.dumps(flags).encode()


def decoded_flags(stored: bytes) -> list[bool]:
    """The flags; raises ValueError for other bytes."""
    try:
        return [_of(bool, flag) for flag in json.loads(stored)]
    except TypeError as error:
        raise ValueError(f"not flags: {error}") from error


@cache
def lowering_fingerprint() -> str:
    """The lowering that this process has: its sources and PyTorch, which has shapes and rules."""
    digest = hashlib.sha256(torch.__version__.encode())
    package = Path(registry.__file__).parent
    for source in (Path(__file__), *sorted(package.rglob("*.py"))):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def encoded(plan: OperatorProgram, program: str | None) -> bytes:
    """A plan and the key of its program, None where there is nothing to compute."""
    signature = plan.signature
    row = {
        "program": program,
        "inputs": [[b.element, list(b.shape)] for b in signature.inputs],
        "numbers": list(signature.scalars),
        "outputs": [[b.element, list(b.shape)] for b in signature.outputs],
        "has_error": signature.has_error,
        "positions_of_inputs": list(plan.inputs),
        "number_sources": [[list(n.sources), _name(n.dtype), n.function] for n in plan.scalars],
        "random_positions": plan.positions,
        "results": [
            [
                r.written,
                _name(r.window.dtype),
                list(r.window.shape),
                list(r.window.strides),
                r.window.offset,
                r.resized,
                r.is_output,
            ]
            for r in plan.results
        ],
        "returns": [_return_row(item) for item in plan.returns],
        "checks": [[kind.__name__, message] for kind, message in plan.checks],
    }
    return json.dumps(row, separators=(",", ":")).encode()


def decoded(stored: bytes) -> tuple[OperatorProgram, str | None]:
    """The plan, without a module, and the key of its program.

    Raises:
        ValueError: these are not the bytes of a plan.

    """
    try:
        row = json.loads(stored)
        signature = Signature(
            _buffers(row["inputs"]),
            tuple(_one_of(element, _ELEMENTS) for element in row["numbers"]),
            _buffers(row["outputs"]),
            _of(bool, row["has_error"]),
        )
        plan = OperatorProgram(
            None,
            signature,
            _integers(row["positions_of_inputs"]),
            tuple(
                NumberArgument(_integers(sources), _DTYPES[dtype], _one_of(name, _NUMBER_FUNCTIONS))
                for sources, dtype, name in row["number_sources"]
            ),
            _of(int, row["random_positions"]),
            tuple(_result(result) for result in row["results"]),
            tuple(_returned(item) for item in row["returns"]),
            tuple((_ERRORS[kind], _of(str, message)) for kind, message in row["checks"]),
        )
        program = row["program"]
        return plan, None if program is None else _of(str, program)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a plan: {error!r}") from error


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _return_row(item: Any) -> Any:
    if isinstance(item, Given):
        return {"number": item.number}
    return [_return_row(part) for part in item] if isinstance(item, list) else item


def _returned(item: Any) -> Any:
    if isinstance(item, dict):
        number = item["number"]
        return Given(number if isinstance(number, bool) else _of(int, number))
    if isinstance(item, list):
        return [_returned(part) for part in item]
    return None if item is None else _of(int, item)


def _result(row: list[Any]) -> Result:
    written, dtype, shape, strides, offset, resized, is_output = row
    window = Window(_DTYPES[dtype], _integers(shape), _integers(strides), _of(int, offset))
    return Result(
        None if written is None else _of(int, written),
        window,
        _of(bool, resized),
        _of(bool, is_output),
    )


def _buffers(rows: list[Any]) -> tuple[Buffer, ...]:
    return tuple(Buffer(_one_of(element, _ELEMENTS), _integers(shape)) for element, shape in rows)


def _integers(row: list[Any]) -> tuple[int, ...]:
    return tuple(_of(int, number) for number in row)


def _one_of(name: str, names: frozenset[str]) -> str:
    if name not in names:
        raise ValueError(f"{name!r} is unknown")
    return name


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
