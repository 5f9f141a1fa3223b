"""Writes the program of a piece of a graph: its nodes by the lowering registry, in one function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_map_only

from torch_trainium.compile import nodes
from torch_trainium.compile.partition import Piece
from torch_trainium.engines.engine import Signature
from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dispatch, dtypes, windows
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.numbers import NumberArgument
from torch_trainium.lowering.values import Scalar, Value
from torch_trainium.lowering.windows import Window

aten = torch.ops.aten


@dataclass(frozen=True)
class NumberTensor:
    """A zero-dim CPU tensor among a piece's inputs: a number that the program takes."""

    dtype: torch.dtype


@dataclass(frozen=True)
class Constant:
    """Any other input: the program depends on it."""

    value: Any


Input = Window | NumberTensor | Constant


@dataclass(frozen=True)
class Result:
    """A tensor that the program makes or writes.

    Attributes:
        window: where its elements lie.
        written: position of the input that it is, or None for a new tensor.

    """

    window: Window
    written: int | None = None


@dataclass(frozen=True)
class View:
    """An output that is the memory of another tensor, seen otherwise.

    Attributes:
        of_input: position of that tensor among the piece's inputs, or None.
        of_result: else its index among the new results.
        shape, strides: of the view.
        offset: elements from the first of the tensor to the first of the view.

    """

    of_input: int | None
    of_result: int | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class New:
    """An output that is a new result."""

    index: int


Output = New | View | Constant


@dataclass(frozen=True)
class PieceProgram:
    """What to compile for a piece, and how to run it.

    Attributes:
        module: StableHLO, or None where there is nothing to compute.
        signature: the arrays it takes and gives.
        arrays: of each array it reads, the position among the inputs.
        numbers: the numbers it takes, whose sources are positions among the inputs.
        positions: how many positions of the random stream it draws from.
        results: the tensors it makes or writes.
        outputs: what the piece's outputs are.
        checks: what the program's errors stand for, the first for error 1.
        shapes: of each node with array results, their dtypes and shapes, for the cost model.

    """

    module: bytes | None
    signature: Signature
    arrays: tuple[int, ...]
    numbers: tuple[NumberArgument, ...]
    positions: int
    results: tuple[Result, ...]
    outputs: tuple[Output, ...]
    checks: tuple[tuple[type[Exception], str], ...]
    shapes: Mapping[Node, list[tuple[torch.dtype, tuple[int, ...]]]]


class NodeRefusedError(LoweringError):
    """A node that is in no program; `node` says which."""

    def __init__(self, node: Node, reason: Exception) -> None:
        super().__init__(f"{node.target}: {reason}")
        self.node = node


def lower(
    piece: Piece, inputs: Sequence[Input], strides: Callable[[Node], tuple[int, ...] | None]
) -> PieceProgram:
    """Write the program of a piece for these inputs.

    Args:
        piece: what to write.
        inputs: one for each of `piece.inputs`.
        strides: those that a node's tensor is to have; None for row by row.

    Raises:
        NodeRefusedError: a node cannot be expressed as a program.

    """
    with Builder() as x:
        buffers: dict[int, Value] = {}
        env: dict[Node, Any] = {}
        read = dict(enumerate(inputs))
        for position, given in read.items():  # arrays come before numbers
            if isinstance(given, Window):
                buffers[position], value = windows.read(x, given)
                env[piece.inputs[position]] = value
        for position, given in read.items():
            if isinstance(given, NumberTensor):
                scalar = Scalar(position, _kind(given.dtype), given.dtype)
                env[piece.inputs[position]] = x.number(scalar, given.dtype)
            elif isinstance(given, Constant):
                env[piece.inputs[position]] = given.value
        given_values = dict(env)
        written: dict[int, Value] = {}
        for node in piece.nodes:
            if nodes.is_write(node):
                target, value = node.args[0], env[node.args[1]]  # type: ignore[index]
                position = piece.inputs.index(target)  # type: ignore[arg-type]
                window = read[position]
                assert isinstance(window, Window)
                env[target] = x.broadcast(x.number(value, window.dtype), window.shape)  # type: ignore[index]
                env[node] = written[position] = env[target]  # type: ignore[index]
            else:
                env[node] = _value_of(x, node, env)
        results, outputs, stored = [], [], []
        made: dict[Node, int] = {}
        for node in piece.outputs:
            if not isinstance(env[node], Value):
                outputs.append(Constant(env[node]))
                continue
            base, chain = _viewed(node, piece, made, written)
            if base is not None:
                outputs.append(_view(base, chain, piece, made, results, inputs, env, strides))
                continue
            value = env[node]
            window = _placed(value, strides(node))
            made[node] = len(results)
            outputs.append(New(made[node]))
            results.append(Result(window))
            stored.append(value)
        for position, value in written.items():
            window = read[position]
            assert isinstance(window, Window)
            if value is given_values[piece.inputs[position]] or not window.size:
                continue
            results.append(Result(window, position))
            stored.append(value)
        arrays = [
            p for p, given in read.items() if isinstance(given, Window) and given.size
        ]
        kept = [(r, v) for r, v in zip(results, stored, strict=True) if r.window.size]
        values = [
            windows.write(x, value, r.window, buffers.get(r.written) if r.written is not None else None)
            for r, value in kept
        ]
        signature = Signature(
            tuple(read[p].buffer for p in arrays),  # type: ignore[union-attr]
            tuple(dtypes.element_type(number.dtype) for number in x.scalar_arguments),
            tuple(r.window.buffer for r, _ in kept),
            bool(x.checks),
        )
        module = x.finish(values) if values or x.checks else None
    return PieceProgram(
        module,
        signature,
        tuple(arrays),
        tuple(x.scalar_arguments),
        x.positions,
        tuple(results),
        tuple(outputs),
        tuple(x.checks),
        {node: _shapes(value) for node, value in env.items()},
    )


def _value_of(x: Builder, node: Node, env: dict[Node, Any]) -> Any:
    """What a node gives; numbers of shapes are Python's."""
    args, kwargs = map_arg((node.args, node.kwargs), lambda source: env[source])
    args, kwargs = _plain(args), _plain(kwargs)
    target = node.target
    try:
        if target in nodes.SHAPE_QUERIES:
            return _shape_query(target, *args)
        if not isinstance(target, torch._ops.OpOverload):
            return target(*args, **kwargs)  # type: ignore[operator]
        given = dispatch.lower_call(x, target, tuple(args), kwargs)
        _agree(node, given)
        return given
    except (
        LoweringError,
        TypeError,
        ValueError,
        RuntimeError,
        RecursionError,
        IndexError,
        x.ir.MLIRError,
    ) as error:
        raise NodeRefusedError(node, error) from error


def _plain(argument: Any) -> Any:
    """Arguments as operators get them: lists, and no device, which values do not have."""
    if isinstance(argument, dict):
        return {name: _plain(value) for name, value in argument.items()}
    if isinstance(argument, (list, tuple)):
        return [_plain(item) for item in argument]
    return torch.device("cpu") if isinstance(argument, torch.device) else argument


def _shape_query(target: Any, value: Any, *dims: int) -> Any:
    if target is aten.sym_size.int:
        return value.shape[dims[0]]
    if target is aten.sym_size.default:
        return list(value.shape)
    if target is aten.sym_numel.default:
        return value.size
    raise LoweringError("a program has no strides and offsets to ask for")


def _agree(node: Node, given: Any) -> None:
    """A lowering with another dtype or shape than PyTorch's is wrong, whatever it computes."""
    expected = node.meta.get("val")
    pairs = zip(
        given if isinstance(given, (list, tuple)) else [given],
        expected if isinstance(expected, (list, tuple)) else [expected],
        strict=False,
    )
    for value, fake in pairs:
        if not isinstance(value, Value) or not isinstance(fake, torch.Tensor):
            continue
        same = len(value.shape) == fake.dim() and all(
            not isinstance(size, int) or size == length
            for size, length in zip(fake.shape, value.shape, strict=True)
        )
        if value.dtype is not fake.dtype or not same:
            raise LoweringError(
                f"the lowering gives {value.dtype} {list(value.shape)}, and PyTorch "
                f"{fake.dtype} {list(fake.shape)}"
            )


def _viewed(
    node: Node, piece: Piece, made: dict[Node, int], written: dict[int, Value]
) -> tuple[Node | None, list[Node]]:
    """The tensor whose memory an output may be, and the views that lead from it to the output."""
    chain = [node] if nodes.is_view(node) else []
    while chain:
        source = chain[-1].args[0]
        assert isinstance(source, Node)
        if source in made:
            return source, chain[::-1]
        if source in piece.inputs:
            is_kept = piece.inputs.index(source) not in written
            return (source, chain[::-1]) if is_kept else (None, [])
        if not nodes.is_view(source):
            break
        chain.append(source)
    return None, []


def _view(
    base: Node,
    chain: list[Node],
    piece: Piece,
    made: dict[Node, int],
    results: list[Result],
    inputs: Sequence[Input],
    env: dict[Node, Any],
    strides: Callable[[Node], tuple[int, ...] | None],
) -> Output:
    """Where PyTorch's own views put the output in the memory of `base`."""
    is_input = base in piece.inputs
    window = inputs[piece.inputs.index(base)] if is_input else results[made[base]].window
    assert isinstance(window, Window)
    seen: Any = torch.empty_strided(
        window.shape, window.strides, dtype=window.dtype, device="meta"
    )
    known: dict[Node, Any] = {base: seen}
    for node in chain:
        args, kwargs = map_arg(
            (node.args, node.kwargs), lambda source: known.get(source, env.get(source))
        )
        seen = node.target(*args, **kwargs)  # type: ignore[operator]
        known[node] = seen
    return View(
        piece.inputs.index(base) if is_input else None,
        None if is_input else made[base],
        tuple(seen.shape),
        tuple(seen.stride()),
        int(seen.storage_offset()),
    )


def _placed(value: Value, strides: tuple[int, ...] | None) -> Window:
    """Where a new result lies: as PyTorch lays it out, if that has neither gaps nor overlaps."""
    if strides is not None:
        window = Window(value.dtype, value.shape, strides)
        if window.order is not None or not window.size:
            return window
    dense: list[int] = []
    step = 1
    for length in reversed(value.shape):
        dense.insert(0, step)
        step *= max(length, 1)
    return Window(value.dtype, value.shape, tuple(dense))


def _kind(dtype: torch.dtype) -> type:
    if dtype is torch.bool:
        return bool
    if dtype.is_complex:
        return complex
    return float if dtype.is_floating_point else int


def _shapes(value: Any) -> list[tuple[torch.dtype, tuple[int, ...]]]:
    found: list[tuple[torch.dtype, tuple[int, ...]]] = []
    tree_map_only(Value, lambda v: found.append((v.dtype, v.shape)), value)
    return found
