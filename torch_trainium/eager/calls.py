"""One operator call through the compiler: look its program up, or write it; then run it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.utils._pytree import tree_map

from torch_trainium.engines.engine import ALIGNMENT_BYTES, Number, Program
from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dispatch, numbers, registry
from torch_trainium.lowering.program import Call, OperatorProgram, Tensor, lower_operator
from torch_trainium.lowering.values import Scalar
from torch_trainium.lowering.windows import Window

NUMBERS = (bool, int, float, complex)


@dataclass
class Entry:
    """A call's program, loaded."""

    plan: OperatorProgram
    program: Program | None


class _Description:
    """A call taken apart: what its program depends on, and the data it runs on."""

    def __init__(self, overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.overload = overload
        self.tensors: list[torch.Tensor] = []
        self.numbers: list[Number] = []
        self.bound = dispatch.bind(overload, args, kwargs)
        self._positions: dict[int, int] = {}
        rules = _rules(overload)
        self.arguments = {
            name: self._describe(value, rules[name]) for name, value in self.bound.items()
        }
        self.key = (registry.qualified_name(overload), _hashable(tuple(self.arguments.values())))

    def _describe(self, value: Any, is_dynamic: bool) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value, is_dynamic)
        if is_dynamic and isinstance(value, NUMBERS):
            self.numbers.append(value)
            return Scalar(len(self.numbers) - 1, type(value))
        if isinstance(value, (list, tuple)):
            return [self._describe(item, is_dynamic) for item in value]
        return None if isinstance(value, torch.Generator) else value

    def _tensor(self, tensor: torch.Tensor, is_dynamic: bool) -> Any:
        if tensor.device.type == "cpu" and tensor.dim() == 0 and is_host_scalar(tensor):
            self.numbers.append(tensor.item())
            return Scalar(len(self.numbers) - 1, type(self.numbers[-1]), tensor.dtype)
        position = self._positions.setdefault(id(tensor), len(self.tensors))
        if position == len(self.tensors):
            self.tensors.append(tensor)
        address = tensor.data_ptr()
        offset, rest = divmod(address % ALIGNMENT_BYTES, tensor.itemsize)
        if rest:
            raise LoweringError(
                f"{registry.qualified_name(self.overload)}: a tensor starts at {address:#x}, "
                f"between two elements of its dtype; clone() it"
            )
        return Tensor(position, Window(tensor.dtype, tuple(tensor.shape), tensor.stride(), offset))


# Whether a zero-dim CPU tensor stands for a number; tests that run on the CPU say no.
is_host_scalar: Callable[[torch.Tensor], bool] = lambda tensor: True  # noqa: E731


def _no_random_state(generator: torch.Generator | None, positions: int) -> tuple[int, int]:
    raise LoweringError("random numbers need a generator of a neuron device")


# Takes positions from a generator, the device's own for None; gives its seed and the offset.
reserve_random: Callable[[torch.Generator | None, int], tuple[int, int]] = _no_random_state


@cache
def _rules(overload: Any) -> dict[str, bool]:
    """Of each argument, whether it is a number that the program takes when it runs."""
    functional = dispatch.functional_form(overload) or overload
    lowering = registry.find(functional)
    rules = {}
    for argument in overload._schema.arguments:
        is_number = _element(argument.type) in ("number", "float", "Tensor")
        static = lowering is None or argument.name in lowering.static
        rules[argument.name] = is_number and not static
    return rules


def _element(type_: Any) -> str:
    """The innermost type: "Tensor" of Tensor?[]."""
    kind: str = type_.kind()
    if kind in ("OptionalType", "ListType"):
        return _element(type_.getElementType())
    return {"NumberType": "number", "FloatType": "float", "TensorType": "Tensor"}.get(kind, kind)


def _hashable(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_hashable(item) for item in value)
    if isinstance(value, Scalar):
        return (value.index, value.kind, value.dtype)
    if isinstance(value, NUMBERS):
        # 1, 1.0 and True are equal, as are 0.0 and -0.0; programs for them are not.
        return (type(value), repr(value))
    return value


_entries: dict[Any, Entry] = {}


def call(overload: Any, *args: Any, **kwargs: Any) -> Any:
    """Run one operator as a compiled program on its tensors, wherever they are.

    Raises:
        LoweringError: it cannot be expressed as a program.
        IndexError, RuntimeError: what the operator itself raises for its data.

    """
    description = _Description(overload, args, kwargs)
    entry = _entries.get(description.key)
    if entry is None:
        entry = _entries[description.key] = _compile(description)
    return _run(entry, description)


def _compile(description: _Description) -> Entry:
    from torch_trainium.engines import xla_cpu

    plan = lower_operator(
        Call(description.overload, description.arguments, tuple(description.numbers))
    )
    if plan.module is None:
        return Entry(plan, None)
    return Entry(plan, xla_cpu.engine().compile(plan.module, plan.signature))


def _run(entry: Entry, description: _Description) -> Any:
    plan = entry.plan
    tensors = description.tensors
    results = []
    outputs = []
    for result in plan.results:
        window = result.window
        if result.written is None:
            tensor = torch.empty_strided(
                window.shape, window.strides, dtype=window.dtype, device=_device(tensors)
            )
        else:
            tensor = tensors[result.written]
            if result.resized:
                tensor.resize_(window.shape)
                tensor.as_strided_(window.shape, window.strides)
        results.append(tensor)
        if window.size:
            outputs.append(tensor.data_ptr() - window.offset * tensor.itemsize)
    if entry.program is not None:
        inputs = [_aligned(tensors[position].data_ptr()) for position in plan.inputs]
        generator = description.bound.get("generator")
        stream = reserve_random(generator, plan.positions) if plan.positions else None
        scalars = numbers.host_values(plan.scalars, description.numbers, stream)
        error = entry.program.run(inputs, scalars, outputs)
        if error:
            kind, message = plan.checks[error - 1]
            raise kind(message)
    return tree_map(lambda p: None if p is None else results[p], plan.structure)


def _aligned(address: int) -> int:
    return address - address % ALIGNMENT_BYTES


def _device(tensors: list[torch.Tensor]) -> torch.device:
    return tensors[0].device if tensors else torch.device("cpu")
