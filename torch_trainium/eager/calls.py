"""One operator call through the compiler: look its program up, or write it; then run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import torch

from torch_trainium.engines import programs
from torch_trainium.engines.engine import ALIGNMENT_BYTES, Number, Program
from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dispatch, registry
from torch_trainium.lowering.numbers import host_values
from torch_trainium.lowering.program import (
    Call,
    Given,
    OperatorProgram,
    Tensor,
    lower_operator,
)
from torch_trainium.lowering.values import Scalar
from torch_trainium.lowering.windows import Window

NUMBERS = (bool, int, float, complex)
# Told of every call that a program has been made for; checks keep what it consists of.
on_new_program: Callable[[Call], None] | None = None
# A zero-dim CPU tensor beside device tensors is a number. Without a device, it is a tensor.
numbers_on_cpu = True


class Operator:
    """One overload and its programs, by what they depend on.

    `prepare` takes all of the overload's arguments in the schema's order.
    """

    def __init__(self, overload: Any) -> None:
        self.overload = overload
        self._names = [argument.name for argument in overload._schema.arguments]
        self._dynamic = _numbers_taken_at_run(overload)
        self._generator = self._names.index("generator") if "generator" in self._names else None
        self.entries: dict[Any, Entry] = {}
        self.refused: dict[Any, LoweringError] = {}

    def prepare(self, arguments: Sequence[Any]) -> Callable[[], Any]:
        """The call, with its program looked up or compiled, ready to run.

        Raises:
            LoweringError: it cannot be expressed as a program; the message names the operator.

        """
        reader = _Reader()
        key = tuple(map(reader.key, arguments, self._dynamic))
        entry = self.entries.get(key)
        if entry is None:
            if key in self.refused:
                raise self.refused[key].with_traceback(None)
            described = {
                name: reader.describe(value, dynamic)
                for name, value, dynamic in zip(self._names, arguments, self._dynamic, strict=True)
            }
            call = Call(self.overload, described, tuple(reader.numbers))
            # A thread of its own has none of the caller's modes, guards and dispatch keys.
            try:
                entry = _compiler().submit(_compile, call).result()
            except LoweringError as error:
                self.refused[key] = error
                raise
            self.entries[key] = entry
            if on_new_program is not None:
                on_new_program(call)
        tensors, numbers = reader.tensors, reader.numbers
        generator = arguments[self._generator] if self._generator is not None else None
        return lambda: entry.run(tensors, numbers, generator)


class _Reader:
    """Takes arguments apart: what a program depends on, and the data it runs on."""

    def __init__(self) -> None:
        self.tensors: list[torch.Tensor] = []
        self.numbers: list[Number] = []

    def key(self, value: Any, dynamic: bool) -> Any:
        if isinstance(value, torch.Tensor):
            if numbers_on_cpu and value.device.type == "cpu" and value.dim() == 0 and dynamic:
                self.numbers.append(value.item())
                return type(self.numbers[-1]), value.dtype
            for position, known in enumerate(self.tensors):
                if known is value:
                    return position
            self.tensors.append(value)
            return (
                value.dtype,
                value.shape,
                value.stride(),
                value.data_ptr() % ALIGNMENT_BYTES,
            )
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, NUMBERS):
            if dynamic:
                self.numbers.append(value)
                return type(value)
            # 1, 1.0 and True are equal, as are 0.0 and -0.0; programs for them are not.
            return type(value), repr(value)
        if isinstance(value, (list, tuple)):
            return tuple(self.key(item, dynamic) for item in value)
        return None if isinstance(value, torch.Generator) else value

    def describe(self, value: Any, dynamic: bool) -> Any:
        """The same argument for the lowering; called in the same order after all keys are read."""
        if not hasattr(self, "_described"):
            self._described = 0
        if isinstance(value, torch.Tensor):
            if numbers_on_cpu and value.device.type == "cpu" and value.dim() == 0 and dynamic:
                return self._scalar(type(value.item()), value.dtype)
            position = next(i for i, known in enumerate(self.tensors) if known is value)
            offset, rest = divmod(value.data_ptr() % ALIGNMENT_BYTES, value.itemsize)
            if rest and value.numel():
                raise LoweringError("a tensor starts between two elements of its dtype; clone() it")
            window = Window(value.dtype, tuple(value.shape), value.stride(), offset)
            return Tensor(position, window)
        if dynamic and isinstance(value, NUMBERS):
            return self._scalar(type(value), None)
        if isinstance(value, (list, tuple)):
            return [self.describe(item, dynamic) for item in value]
        return None if isinstance(value, torch.Generator) else value

    def _scalar(self, kind: type, dtype: torch.dtype | None) -> Scalar:
        self._described += 1
        return Scalar(self._described - 1, kind, dtype)


class Entry:
    """A call's program, loaded."""

    def __init__(self, plan: OperatorProgram, program: Program | None) -> None:
        self.plan = plan
        self.program = program
        self._new = [
            (r.window.dtype, r.window.shape, r.window.strides)
            for r in plan.results
            if r.written is None
        ]
        self._allocate = _device_allocator(self._new) if numbers_on_cpu else None

    def run(
        self,
        tensors: list[torch.Tensor],
        numbers: list[Number],
        generator: torch.Generator | None = None,
    ) -> Any:
        """Allocate the results and run the program into them."""
        plan = self.plan
        device = tensors[0].device if tensors else torch.device("cpu")
        new = iter(self._new_tensors(device))
        offset = _host_offset() if device.type != "cpu" else 0
        results = []
        outputs = []
        for result in plan.results:
            window = result.window
            if result.written is None:
                tensor = next(new)
            else:
                tensor = tensors[result.written]
                if result.resized:
                    tensor.resize_(window.shape)
                    tensor.as_strided_(window.shape, window.strides)
            results.append(tensor)
            if result.is_output:
                outputs.append(tensor.data_ptr() - window.offset * tensor.itemsize + offset)
        if self.program is not None:
            inputs = [
                tensors[position].data_ptr() // ALIGNMENT_BYTES * ALIGNMENT_BYTES + offset
                for position in plan.inputs
            ]
            stream = None
            if plan.positions:
                stream = reserve_random(generator, device, plan.positions)
            scalars = host_values(plan.scalars, numbers, stream)
            error = self.program.run(inputs, scalars, outputs)
            if error:
                kind, message = plan.checks[error - 1]
                raise kind(message)
        if len(plan.returns) == 1:
            return _pick(results, plan.returns[0])
        return tuple(_pick(results, item) for item in plan.returns)

    def _new_tensors(self, device: torch.device) -> list[torch.Tensor]:
        if self._allocate is not None and device.type != "cpu":
            tensors: list[torch.Tensor] = self._allocate(device)
            return tensors
        return [
            torch.empty_strided(shape, strides, dtype=dtype, device=device)
            for dtype, shape, strides in self._new
        ]


def call(overload: Any, *args: Any, **kwargs: Any) -> Any:
    """Run one operator as a compiled program on its tensors, wherever they are.

    Raises:
        LoweringError: it cannot be expressed as a program.
        IndexError, RuntimeError: what the operator itself raises for its data.

    """
    bound = dispatch.bind(overload, args, kwargs)
    return operator(overload).prepare(list(bound.values()))()


@cache
def operator(overload: Any) -> Operator:
    """The programs of an overload."""
    return Operator(overload)


def _compile(call: Call) -> Entry:
    plan = lower_operator(call)
    if plan.module is None:
        return Entry(plan, None)
    return Entry(
        plan,
        programs.program_cache().get(
            plan.module, plan.signature, registry.qualified_name(call.overload)
        ),
    )


@cache
def _compiler() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="torch_trainium compiler")


def _pick(results: list[torch.Tensor], item: Any) -> Any:
    if item is None:
        return None
    if isinstance(item, list):
        return [_pick(results, part) for part in item]
    if isinstance(item, Given):
        return item.number
    return results[item]


def _numbers_taken_at_run(overload: Any) -> list[bool]:
    """Of each argument, whether its numbers are the program's arguments."""
    functional = dispatch.functional_form(overload) or overload
    lowering = registry.find(functional)
    return [
        lowering is not None
        and argument.name not in lowering.static
        and _element(argument.type) in ("NumberType", "FloatType", "TensorType")
        for argument in overload._schema.arguments
    ]


def _element(type_: Any) -> str:
    """The kind of the innermost type: TensorType of Tensor?[]."""
    kind: str = type_.kind()
    return _element(type_.getElementType()) if kind in ("OptionalType", "ListType") else kind


@cache
def _host_offset() -> int:
    from torch_trainium import _C

    return _C.programs.host_offset()


def _reserve_on_device(
    generator: torch.Generator | None, device: torch.device, positions: int
) -> tuple[int, int]:
    from torch_trainium import _C

    stream: tuple[int, int] = _C.programs.reserve_random(generator, device, positions)
    return stream


# Takes positions of a generator's stream, the device's own for None; gives seed and offset.
reserve_random: Callable[[torch.Generator | None, torch.device, int], tuple[int, int]] = (
    _reserve_on_device
)


def _device_allocator(
    rows: list[tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]],
) -> Callable[[torch.device], list[torch.Tensor]] | None:
    from torch_trainium import _C

    return _C.programs.ResultTensors(rows).allocate
