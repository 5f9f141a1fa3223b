"""A whole program for one operator: from its arguments to a module and what to do with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from torch_trainium.engines.engine import Signature
from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dispatch, dtypes, registry, shape_inference, windows
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.call import Call, Tensor, map_tensors, tensors_of
from torch_trainium.lowering.numbers import NumberArgument
from torch_trainium.lowering.values import Value
from torch_trainium.lowering.windows import Window


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
    """A number or a truth that an operator returns, known from its tensors' shapes."""

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
    targets = tensors_of(dispatch.written_arguments(overload), call.arguments)
    functional = dispatch.functional_form(overload) if targets else None
    computed = functional or overload
    read = _arguments_of(computed, call.arguments, targets)
    expected = shape_inference.results(computed, read, call.numbers)
    known = expected or [None] * len(targets)
    becoming = shape_inference.written(call, known[-len(targets) :]) if targets else []
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
        has_out = any(argument.is_out for argument in overload._schema.arguments)
        placed: list[Result] = []
        outputs: list[Value] = []
        error = x.error()
        for i, value in enumerate(flat):
            if value is None:
                continue
            layout = (expected and expected[i]) or _contiguous(value.dtype, value.shape)
            if i < new:
                result = Result(None, layout)
            else:
                # Without a shape function an `out=` becomes what a new result would be.
                after = becoming[i - new] or (layout if has_out else None)
                result = _written(targets[i - new], value, after)
            window = result.window
            unchanged = result.written in inputs and value is inputs[result.written][1]
            result = replace(result, is_output=bool(window.size) and not unchanged)
            placed.append(result)
            if result.is_output:
                old = inputs[result.written][0] if result.written in inputs else None
                if value.size == window.size:  # numbers in a row fill a tensor of any shape
                    value = x.reshape(value, window.shape)
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


# Their results have the dtype of what they are written to, unless `dtype` says another.
_DTYPE_OF_OUT = ("aten::sum", "aten::nansum", "aten::prod", "aten::cumsum", "aten::cumprod")


def _arguments_of(
    functional: Any, arguments: dict[str, Any], targets: Sequence[Tensor]
) -> dict[str, Any]:
    """A call's arguments for the functional form; what is written says what a factory makes."""
    options: dict[str, Any] = dict.fromkeys(dispatch.TENSOR_OPTIONS)
    if targets:
        options |= {"dtype": targets[0].window.dtype, "device": torch.device("cpu")}
    given = dict(arguments)
    if targets and functional._schema.name in _DTYPE_OF_OUT and given.get("dtype") is None:
        given["dtype"] = options["dtype"]
    names = (argument.name for argument in functional._schema.arguments)
    return {name: given[name] if name in given else options[name] for name in names}


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


def _apply(x: Builder, overload: Any, values: dict[str, Any]) -> Any:
    positional = [values[a.name] for a in overload._schema.arguments if not a.kwarg_only]
    named = {a.name: values[a.name] for a in overload._schema.arguments if a.kwarg_only}
    return dispatch.lower_call(x, overload, tuple(positional), named)


def _tensors(arguments: dict[str, Any]) -> dict[int, Window]:
    found: dict[int, Window] = {}
    for argument in arguments.values():
        map_tensors(argument, lambda t: found.setdefault(t.position, t.window))
    return found


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


def _written(target: Tensor, value: Value, becoming: Window | None) -> Result:
    """What is written where, as the operator's shape function has it, or else as it is."""
    window = target.window
    if not torch.can_cast(value.dtype, window.dtype):
        raise RuntimeError(
            f"result type {value.dtype} can't be cast to the desired output type {window.dtype}"
        )
    if becoming is None or becoming.shape == window.shape:
        return Result(target.position, window)
    return Result(target.position, replace(becoming, dtype=window.dtype), resized=True)


def _contiguous(dtype: torch.dtype, shape: tuple[int, ...]) -> Window:
    strides: list[int] = []
    step = 1
    for length in reversed(shape):
        strides.insert(0, step)
        step *= max(length, 1)
    return Window(dtype, shape, tuple(strides))
