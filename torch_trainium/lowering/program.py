"""A whole program for one operator: from its arguments to a module and what to do with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._subclasses import FakeTensorMode

from torch_trainium.engines.engine import Number, Signature
from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dispatch, dtypes, registry, shape_functions, windows
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.numbers import NumberArgument
from torch_trainium.lowering.values import Scalar, Value
from torch_trainium.lowering.windows import Window


@dataclass(frozen=True)
class Call:
    """One use of an operator, without its data.

    Attributes:
        overload: the operator.
        arguments: by the schema's names, with tensors as (position, Window) in a `Tensor`, and
            numbers that the program takes when it runs as `Scalar`.
        numbers: what those numbers are this time; a program does not depend on them.

    """

    overload: Any
    arguments: dict[str, Any]
    numbers: tuple[Number, ...]


@dataclass(frozen=True)
class Tensor:
    """A tensor argument: which of the call's tensors, and where its elements lie."""

    position: int
    window: Window


@dataclass(frozen=True)
class Result:
    """A result of the operator.

    Attributes:
        written: position of the tensor argument that it is, or None for a new tensor.
        window: where its elements lie.
        resized: whether the tensor must get the window's shape first.
        is_output: whether the program writes it; not what has no elements or keeps its own.

    """

    written: int | None
    window: Window
    resized: bool = False
    is_output: bool = True


@dataclass(frozen=True)
class Given:
    """A number that an operator returns beside its tensors, known from their shapes."""

    number: int


@dataclass(frozen=True)
class OperatorProgram:
    """What to compile for a call, and how to run it.

    Attributes:
        module: StableHLO, or None where there is nothing to compute.
        signature: the arrays it takes and gives.
        inputs: of each array it reads, the position of the tensor.
        scalars: the numbers it takes, which `numbers.host_values` computes.
        positions: how many positions of the random stream it draws from.
        results: the tensors it makes or writes; those with elements are the program's outputs.
        returns: what the operator returns: indices of results, lists of them, `Given`, or None.
        checks: what the program's errors stand for, the first for error 1.

    """

    module: bytes | None
    signature: Signature
    inputs: tuple[int, ...]
    scalars: tuple[NumberArgument, ...]
    positions: int
    results: tuple[Result, ...]
    returns: tuple[Any, ...]
    checks: tuple[tuple[type[Exception], str], ...]


def lower_operator(call: Call) -> OperatorProgram:
    """Write the program of an operator.

    Raises:
        LoweringError: the operator, or this use of it, cannot be expressed; the message names it.

    """
    overload = call.overload
    targets = _written(overload, call.arguments)
    functional = dispatch.functional_form(overload) if targets else None
    computed = functional or overload
    read = _arguments_of(computed, call.arguments, targets)
    expected = _infer(computed, read, call.numbers)
    with Builder() as x:
        inputs: dict[int, tuple[Value, Value]] = {}

        def as_value(argument: Tensor) -> Value:
            if argument.position not in inputs:
                inputs[argument.position] = windows.read(x, argument.window)
            return inputs[argument.position][1]

        with _naming(overload, x.ir.MLIRError):
            for window in expected or ():
                if window is not None:
                    dtypes.element_type(window.dtype)  # before a decomposition runs into it
            values = {name: map_tensors(value, as_value) for name, value in read.items()}
            # Gaps of a written window keep what they hold, so its buffer is read as well.
            for target in targets:
                if target.window.size and target.window.order is None:
                    as_value(target)
            returned = _apply(x, computed, values)
        flat = _flat(returned)
        if expected is not None:
            _agree(overload, flat, expected)
        new = len(flat) - len(targets)
        placed: list[Result] = []
        outputs: list[Value] = []
        error = x.error()
        for i, value in enumerate(flat):
            if value is None:
                continue
            written = targets[i - new] if i >= new else None
            result = _place(call, value, written, expected[i] if expected else None)
            window = result.window
            unchanged = result.written in inputs and value is inputs[result.written][1]
            result = replace(result, is_output=bool(window.size) and not unchanged)
            placed.append(result)
            if result.is_output:
                old = inputs[result.written][0] if result.written in inputs else None
                shaped = x.broadcast(value, window.shape).to(window.dtype)
                if error is not None and result.written in inputs and not result.resized:
                    # Whoever is told of an error finds what was to be written as it was.
                    shaped = x.select(error.eq(0), shaped, inputs[result.written][1])
                outputs.append(windows.write(x, shaped, window, old))
        tensors = _tensors(call.arguments)
        read_positions = [position for position in inputs if tensors[position].size]
        signature = Signature(
            tuple(tensors[position].buffer for position in read_positions),
            tuple(dtypes.element_type(number.dtype) for number in x.scalar_arguments),
            tuple(result.window.buffer for result in placed if result.is_output),
            bool(x.checks),
        )
        with _naming(overload, x.ir.MLIRError):
            module = x.finish(outputs) if outputs or x.checks else None
    return OperatorProgram(
        module,
        signature,
        tuple(read_positions),
        tuple(x.scalar_arguments),
        x.positions,
        tuple(placed),
        _returns(overload, returned, new),
        tuple(x.checks),
    )


def _arguments_of(
    functional: Any, arguments: dict[str, Any], targets: Sequence[Tensor]
) -> dict[str, Any]:
    """A call's arguments for the functional form; what is written says what a factory makes."""
    options: dict[str, Any] = dict.fromkeys(dispatch.TENSOR_OPTIONS)
    if targets:
        options |= {"dtype": targets[0].window.dtype, "device": torch.device("cpu")}
    return {
        a.name: arguments[a.name] if a.name in arguments else options[a.name]
        for a in functional._schema.arguments
    }


@contextmanager
def _naming(overload: Any, malformed: type[Exception]) -> Iterator[None]:
    """Whatever a lowering cannot do is a LoweringError that names the operator."""
    name = registry.qualified_name(overload)
    try:
        yield
    except LoweringError as error:
        if name in str(error):
            raise
        raise LoweringError(f"{name}: {error}") from error
    except (TypeError, ValueError, RuntimeError, RecursionError, malformed) as error:
        raise LoweringError(f"{name}: {error}") from error


def _flat(returned: Any) -> list[Any]:
    """The arrays of an operator's results in order, those it leaves out as None; no numbers."""
    if isinstance(returned, (list, tuple)):
        return [value for item in returned for value in _flat(item)]
    return [] if isinstance(returned, int) else [returned]


def _returns(overload: Any, returned: Any, new: int) -> tuple[Any, ...]:
    """Where the operator's results are among the flat ones without None."""
    rows = iter(range(len(_flat(returned))))

    def index(item: Any) -> Any:
        if isinstance(item, (list, tuple)):
            return [index(part) for part in item]
        if isinstance(item, int):
            return Given(item)
        return next(rows) if item is not None else None

    several = isinstance(returned, tuple)
    indexed = [index(item) for item in returned] if several else [index(returned)]
    schema = overload._schema
    if not dispatch.written_arguments(overload):
        return tuple(indexed)
    made = [i for i, result in enumerate(schema.returns) if result.alias_info is None]
    if len(made) == len(schema.returns):  # new results first, then what was written
        return tuple(indexed[: len(made)])
    return tuple(indexed[: len(schema.returns)])


def map_tensors(argument: Any, convert: Callable[[Tensor], Any]) -> Any:
    """An argument with its tensors replaced."""
    if isinstance(argument, Tensor):
        return convert(argument)
    if isinstance(argument, (list, tuple)):
        return [map_tensors(item, convert) for item in argument]
    return argument


def _apply(x: Builder, overload: Any, values: dict[str, Any]) -> Any:
    positional = [values[a.name] for a in overload._schema.arguments if not a.kwarg_only]
    named = {a.name: values[a.name] for a in overload._schema.arguments if a.kwarg_only}
    return dispatch.lower_call(x, overload, tuple(positional), named)


def _tensors(arguments: dict[str, Any]) -> dict[int, Window]:
    found: dict[int, Window] = {}
    for argument in arguments.values():
        map_tensors(argument, lambda t: found.setdefault(t.position, t.window))
    return found


def _written(overload: Any, arguments: dict[str, Any]) -> list[Tensor]:
    written: list[Tensor] = []
    for name in dispatch.written_arguments(overload):
        map_tensors(arguments[name], written.append)
    return written


# Their shape functions lay results out as CUDA does, unless the tensors are said to be the CPU's.
_LAYOUTS_BY_DEVICE = (
    *("aten::_fft_c2c", "aten::_fft_c2r", "aten::_fft_r2c"),
    *("aten::_linalg_svd", "aten::linalg_eig"),
)
# Their shape functions describe what CUDA notes for the backward pass, not the CPU's.
_SHAPES_OF_ANOTHER_DEVICE = ("aten::_embedding_bag", "aten::_embedding_bag_forward_only")


def _infer(
    overload: Any, arguments: dict[str, Any], numbers: Sequence[Number]
) -> list[Window | None] | None:
    """The results as PyTorch lays them out, by its shape functions; None where it has none."""

    def as_meta(argument: Any) -> Any:
        if isinstance(argument, Tensor):
            window = argument.window
            return torch.empty_strided(
                window.shape, window.strides, dtype=window.dtype, device=device
            )
        if isinstance(argument, Scalar):
            number = numbers[argument.index]
            return number if argument.dtype is None else torch.tensor(number, dtype=argument.dtype)
        if isinstance(argument, (list, tuple)):
            return [as_meta(item) for item in argument]
        return torch.device(device) if isinstance(argument, torch.device) else argument

    schema = overload._schema
    by_device = schema.name in _LAYOUTS_BY_DEVICE
    device = "cpu" if by_device else "meta"
    if schema.name in _SHAPES_OF_ANOTHER_DEVICE:
        return None
    try:
        with torch.no_grad(), FakeTensorMode() if by_device else nullcontext():
            positional = [as_meta(arguments[a.name]) for a in schema.arguments if not a.kwarg_only]
            named = {a.name: as_meta(arguments[a.name]) for a in schema.arguments if a.kwarg_only}
            shapes = shape_functions.TABLE.get(registry.qualified_name(overload), overload)
            results = shapes(*positional, **named)
    except NotImplementedError:
        return None
    return [
        None if r is None else Window(r.dtype, tuple(r.shape), tuple(r.stride()))
        for r in _flat(results)
        if r is None or isinstance(r, torch.Tensor)
    ]


def _agree(
    overload: Any, results: Sequence[Value | None], expected: Sequence[Window | None]
) -> None:
    """A lowering with another dtype or shape than PyTorch's is wrong, whatever it computes."""
    given = [v and (v.dtype, v.shape) for v in results]
    # What an output mask leaves out, shape functions may describe all the same.
    left_out = [*(v is None for v in results), *[False] * len(expected)]
    wanted = [w and (w.dtype, w.shape) if not left_out[i] else None for i, w in enumerate(expected)]
    if given != wanted:
        raise LoweringError(
            f"the lowering of {registry.qualified_name(overload)} gives {given}, "
            f"and PyTorch {wanted}"
        )


# In-place operators that give the tensor they write to the result's shape, as `out=` does.
_RESIZE_IN_PLACE = ("aten::addbmm_",)


def _place(call: Call, value: Value, target: Tensor | None, expected: Window | None) -> Result:
    if target is None:
        return Result(None, expected or _contiguous(value.dtype, value.shape))
    window = target.window
    if not torch.can_cast(value.dtype, window.dtype):
        raise RuntimeError(
            f"result type {_name(value.dtype)} can't be cast to the desired output type "
            f"{_name(window.dtype)}"
        )
    schema = call.overload._schema
    is_out = any(a.is_out for a in schema.arguments) or schema.name in _RESIZE_IN_PLACE
    if value.shape == window.shape or not is_out:
        return Result(target.position, window)
    layout = expected or _contiguous(value.dtype, value.shape)
    resized = Window(window.dtype, value.shape, layout.strides)
    return Result(target.position, resized, resized=True)


def _contiguous(dtype: torch.dtype, shape: tuple[int, ...]) -> Window:
    strides: list[int] = []
    step = 1
    for length in reversed(shape):
        strides.insert(0, step)
        step *= max(length, 1)
    return Window(dtype, shape, tuple(strides))


def _name(dtype: torch.dtype) -> str:
    names = {torch.float32: "Float", torch.float64: "Double", torch.int64: "Long"}
    names |= {torch.int32: "Int", torch.float16: "Half", torch.bfloat16: "BFloat16"}
    names |= {torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble"}
    names |= {torch.bool: "Bool", torch.uint8: "Byte", torch.int8: "Char", torch.int16: "Short"}
    return names.get(dtype, str(dtype).removeprefix("torch."))
