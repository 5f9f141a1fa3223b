"""One operator call through the compiler: look its program up, or write it; then run it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from torch_trainium.eager import plans
from torch_trainium.eager.user_code import user_line
from torch_trainium.engines import programs
from torch_trainium.engines.engine import ALIGNMENT_BYTES, Number, Program
from torch_trainium.engines.programs import Origin
from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dispatch, registry
from torch_trainium.lowering.call import Call, Tensor
from torch_trainium.lowering.numbers import FITTED, host_values
from torch_trainium.lowering.program import Given, OperatorProgram, lower_operator
from torch_trainium.lowering.values import Scalar
from torch_trainium.lowering.windows import Window

NUMBERS = (bool, int, float, complex)
# Told of every call that a program has been made for; checks keep what it consists of.
on_new_program: Callable[[Call], None] | None = None
# A zero-dim CPU tensor beside device tensors is a number. Without a device, it is a tensor.
numbers_on_cpu = True


class Operator:
    """One overload and its programs, by what they depend on.

    Attributes:
        takes_numbers: of each argument, whether its numbers are the program's arguments.
        entries: its programs of this process.
        released: those that are not in memory any more; what they cost is still known.

    """

    def __init__(self, overload: Any) -> None:
        self.overload = overload
        self._names = [argument.name for argument in overload._schema.arguments]
        self.takes_numbers = _numbers_taken_at_run(overload)
        self._generator = self._names.index("generator") if "generator" in self._names else None
        self.entries: dict[Any, Entry] = {}
        self.released: list[Entry] = []
        self.refused: dict[Any, LoweringError] = {}

    def prepare(self, arguments: Sequence[Any]) -> PreparedCall:
        """The call, with its program looked up or compiled, ready to run.

        Args:
            arguments: all of the overload's, in the schema's order.

        Raises:
            LoweringError: it cannot be expressed as a program; the message names the operator.

        """
        reader = _Reader()
        key = tuple(map(reader.key, arguments, self.takes_numbers))
        entry = self.entries.get(key)
        if entry is None:
            if key in self.refused:
                raise self.refused[key].with_traceback(None)
            described = {
                name: reader.describe(value, dynamic)
                for name, value, dynamic in zip(
                    self._names, arguments, self.takes_numbers, strict=True
                )
            }
            call = Call(self.overload, described, tuple(reader.numbers))
            if programs.program_cache().is_full:
                release_programs()
            try:
                entry = _found(call, user_line())
            except LoweringError as error:
                self.refused[key] = error
                raise
            self.entries[key] = entry
            if on_new_program is not None:
                on_new_program(call)
        generator = arguments[self._generator] if self._generator is not None else None
        return PreparedCall(entry, reader.tensors, reader.numbers, generator)


@dataclass(frozen=True)
class PreparedCall:
    """A call and its program; call it to run."""

    entry: Entry
    tensors: list[torch.Tensor]
    numbers: list[Number]
    generator: torch.Generator | None

    def __call__(self) -> Any:
        """Run the program; returns what the operator returns."""
        return self.entry.run(self.tensors, self.numbers, self.generator)

    @property
    def plain(self) -> Any:
        """What C++ runs for the same call with other data; None where it takes Python."""
        return self.entry.plain()


class _Reader:
    """Takes arguments apart: what a program depends on, and the data it runs on."""

    def __init__(self) -> None:
        self.tensors: list[torch.Tensor] = []
        self.numbers: list[Number] = []
        self._positions: dict[int, int] = {}  # of tensors, by identity
        self._described = 0

    def key(self, value: Any, dynamic: bool) -> Any:
        if isinstance(value, torch.Tensor):
            if numbers_on_cpu and value.device.type == "cpu" and value.dim() == 0 and dynamic:
                self.numbers.append(value.item())
                return type(self.numbers[-1]), value.dtype
            position = self._positions.setdefault(id(value), len(self.tensors))
            if position < len(self.tensors):
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
        if isinstance(value, torch.Tensor):
            if numbers_on_cpu and value.device.type == "cpu" and value.dim() == 0 and dynamic:
                return self._scalar(type(value.item()), value.dtype)
            position = self._positions[id(value)]
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
    """A call's program, loaded.

    Attributes:
        origin: where it was found.
        seconds: how long it took to find, lowering and compiling included.
        line: the user's line that asked for it first.

    """

    def __init__(
        self,
        plan: OperatorProgram,
        program: Program | None,
        origin: Origin,
        seconds: float,
        line: str,
    ) -> None:
        self.plan = plan
        self.program = program
        self.origin = origin
        self.seconds = seconds
        self.line = line
        self._calls = 0
        self._new = [
            (r.window.dtype, r.window.shape, r.window.strides)
            for r in plan.results
            if r.written is None
        ]
        self._allocate = _device_allocator(self._new) if numbers_on_cpu else None
        self._plain: Any = None

    @property
    def calls(self) -> int:
        """How often the program ran."""
        return self._calls + (self._plain.runs if self._plain is not None else 0)

    def plain(self) -> Any:
        """The same for C++, a `PlainCall`; None where a run takes Python code."""
        plan = self.plan
        returns = [row for item in plan.returns if (row := _plain_return(item)) is not None]
        is_plain = len(returns) == len(plan.returns) and not any(r.resized for r in plan.results)
        if self._plain is None and is_plain:
            from torch_trainium import _C

            as_given = all(n.function == "itself" or n.function in FITTED for n in plan.scalars)
            self._plain = _C.programs.PlainCall(
                self.program.capsule() if self.program is not None else None,
                list(plan.inputs),
                self._new,
                [
                    (
                        -1 if r.written is None else r.written,
                        r.window.offset * r.window.dtype.itemsize,
                        r.is_output,
                    )
                    for r in plan.results
                ],
                [(n.sources[0], n.dtype, FITTED.get(n.function)) for n in plan.scalars]
                if as_given
                else self._packed,
                plan.positions,
                returns,
                self._raise,
            )
        return self._plain

    def released(self) -> Entry:
        """What it cost, without the program: who is about to run it holds this entry still."""
        kept = Entry(self.plan, None, self.origin, self.seconds, self.line)
        kept._calls = self.calls
        self._plain = None  # it and this entry hold each other
        return kept

    def _packed(self, numbers: list[Number], stream: tuple[int, int]) -> bytes:
        assert self.program is not None
        return self.program.pack(host_values(self.plan.scalars, numbers, stream))

    def _raise(self, error: int) -> None:
        kind, message = self.plan.checks[error - 1]
        raise kind(message)

    def run(
        self,
        tensors: list[torch.Tensor],
        numbers: list[Number],
        generator: torch.Generator | None = None,
    ) -> Any:
        """Allocate the results and run the program into them."""
        self._calls += 1
        plan = self.plan
        results = self._results(tensors)
        if self.program is not None:
            error = self.program.run(*self._arguments(tensors, results, numbers, generator))
            if error:
                self._raise(error)
        if len(plan.returns) == 1:
            return _pick(results, plan.returns[0])
        return tuple(_pick(results, item) for item in plan.returns)

    def bound(
        self,
        tensors: list[torch.Tensor],
        numbers: list[Number],
        generator: torch.Generator | None = None,
    ) -> Callable[[], None]:
        """The program's execution alone, its arguments found before; to measure against."""
        assert self.program is not None
        results = self._results(tensors)
        execute = self.program.bound(*self._arguments(tensors, results, numbers, generator))

        def run(_alive: object = (tensors, results)) -> None:
            execute()

        return run

    def _results(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        new = iter(self._new_tensors(_device(tensors)))
        results = []
        for result in self.plan.results:
            window = result.window
            tensor = next(new) if result.written is None else tensors[result.written]
            if result.resized:
                _warn_of_resize(tensor, window.shape)
                tensor.resize_(window.shape)
                tensor.as_strided_(window.shape, window.strides)
            results.append(tensor)
        return results

    def _arguments(
        self,
        tensors: list[torch.Tensor],
        results: list[torch.Tensor],
        numbers: list[Number],
        generator: torch.Generator | None,
    ) -> tuple[list[int], list[Number], list[int]]:
        """Addresses of the inputs, the numbers, addresses of the outputs."""
        plan = self.plan
        device = _device(tensors)
        offset = _host_offset() if device.type != "cpu" else 0
        outputs = [
            _address(tensor, offset) - result.window.offset * tensor.itemsize
            for result, tensor in zip(plan.results, results, strict=True)
            if result.is_output
        ]
        inputs = [
            _address(tensors[position], offset) // ALIGNMENT_BYTES * ALIGNMENT_BYTES
            for position in plan.inputs
        ]
        stream = reserve_random(generator, device, plan.positions) if plan.positions else (0, 0)
        return inputs, host_values(plan.scalars, numbers, stream), outputs

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
    written = dispatch.written_arguments(overload)
    arguments = [
        value if name in written else _materialized(value) for name, value in bound.items()
    ]
    return operator(overload).prepare(arguments)()


_operators: dict[Any, Operator] = {}


def operator(overload: Any) -> Operator:
    """The programs of an overload."""
    if overload not in _operators:
        _operators[overload] = Operator(overload)
    return _operators[overload]


def release_programs() -> None:
    """Let go of all programs in memory; calls that come again find them on disk."""
    from torch_trainium import _C

    _C.programs.release()
    for known in operators():
        entries, known.entries = known.entries, {}
        known.released += [entry.released() for entry in entries.values()]
    programs.program_cache().release()


def operators() -> list[Operator]:
    """All that this process asked for so far."""
    return list(_operators.values())


def _found(call: Call, line: str) -> Entry:
    """The program of a call that this process had none for: by its plan on disk, or written."""
    start = time.perf_counter()
    cache = programs.program_cache()
    key = plans.plan_key(call, cache.fingerprint())
    known = _by_plan(cache, key)
    if known is None:
        # A thread of its own has none of the caller's modes, guards and dispatch keys.
        known = _compiler().submit(_written, call, cache, key).result()
    plan, program, origin = known
    return Entry(plan, program, origin, time.perf_counter() - start, line)


_Known = tuple[OperatorProgram, Program | None, Origin]


def _by_plan(cache: programs.ProgramCache, key: str) -> _Known | None:
    stored = cache.read_plan(key)
    if stored is None:
        return None
    try:
        plan, program_key = plans.decoded(stored)
    except ValueError as error:
        programs.logger.warning("a stored plan is written again: %s", error)
        return None
    if program_key is None:
        return plan, None, Origin.DISK
    found = cache.find(program_key, plan.signature)
    return None if found is None else (plan, found.program, found.origin)


def _written(call: Call, cache: programs.ProgramCache, key: str) -> _Known:
    plan = lower_operator(call)
    if plan.module is None:
        cache.write_plan(key, plans.encoded(plan, None))
        return plan, None, Origin.COMPILER
    name = registry.qualified_name(call.overload)
    found = cache.get(plan.module, plan.signature, name)
    cache.write_plan(key, plans.encoded(plan, found.key))
    return plan, found.program, found.origin


def _materialized(value: Any) -> Any:
    """Tensors as they lie in memory, which is what programs read."""
    if isinstance(value, (list, tuple)):
        return [_materialized(item) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    if value._is_zerotensor():
        return value.clone()
    return value.resolve_conj().resolve_neg()


def _plain_return(item: Any) -> tuple[bool, list[int]] | None:
    """Whether it is a list, and which results; None for what only Python can return."""
    if isinstance(item, list):
        return (True, item) if all(isinstance(part, int) for part in item) else None
    if isinstance(item, Given):
        return None
    return False, [] if item is None else [item]


def _warn_of_resize(out: torch.Tensor, shape: tuple[int, ...]) -> None:
    if out.numel():
        warnings.warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(out.shape)}, which does not match the required output shape {list(shape)}. "
            "Resize it to zero elements to reuse it: out.resize_(0)",
            stacklevel=5,
        )


def _device(tensors: list[torch.Tensor]) -> torch.device:
    return next((t.device for t in tensors if t.device.type != "cpu"), torch.device("cpu"))


def _address(tensor: torch.Tensor, device_offset: int) -> int:
    """Where the host finds a tensor's first element."""
    return tensor.data_ptr() + (device_offset if tensor.device.type != "cpu" else 0)


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
    """Of each argument, whether its numbers are the program's arguments.

    Raises:
        LoweringError: the overload writes to arguments and has no functional form.

    """
    functional = dispatch.functional_form(overload) or overload
    cache = programs.program_cache()
    key = plans.operator_key(overload)
    stored = cache.read_plan(key)
    if stored is not None:
        with suppress(ValueError):
            return plans.decoded_flags(stored)
    lowering = registry.find(functional)
    flags = [
        lowering is not None
        and argument.name not in lowering.static
        and _element(argument.type) in ("NumberType", "FloatType", "TensorType")
        for argument in overload._schema.arguments
    ]
    cache.write_plan(key, plans.encoded_flags(flags))
    return flags


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
