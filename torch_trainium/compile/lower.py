"""Writes the program of a piece of a graph: its nodes by the lowering registry, in one function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from torch_trainium.compile import nodes
from torch_trainium.compile.interpret import Interpreter, OperatorRun
from torch_trainium.compile.partition import Piece
from torch_trainium.engines.engine import Signature
from torch_trainium.lowering import dtypes, windows
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.numbers import NumberArgument
from torch_trainium.lowering.values import Scalar, Value
from torch_trainium.lowering.windows import Window


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
        runs: its operators in the order in which they run.
        leaving: values that are outputs or written to inputs.

    """

    module: bytes | None
    signature: Signature
    arrays: tuple[int, ...]
    numbers: tuple[NumberArgument, ...]
    positions: int
    results: tuple[Result, ...]
    outputs: tuple[Output, ...]
    checks: tuple[tuple[type[Exception], str], ...]
    runs: tuple[OperatorRun, ...]
    leaving: tuple[Value, ...]


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
        writer = _Writer(x, piece, inputs)
        writer.read_inputs()
        for node in piece.nodes:
            writer.write_node(node)
        outputs = [writer.place_output(node, strides) for node in piece.outputs]
        writer.place_written_inputs()
        return writer.finish(outputs)


class _Writer:
    """A piece's program while it is written.

    Attributes:
        env: what each node gives.
        buffers: of each array input, the memory that holds its elements.
        written: of each input that the piece writes to, what it becomes.
        made: of each output that is a new result, its index among `results`.
        results: what the program makes or writes, with their values.

    """

    def __init__(self, x: Builder, piece: Piece, inputs: Sequence[Input]) -> None:
        self.x = x
        self.interpreter = Interpreter(x)
        self.piece = piece
        self.inputs = inputs
        self.position = {node: i for i, node in enumerate(piece.inputs)}
        self.env: dict[Node, Any] = {}
        self.buffers: dict[int, Value] = {}
        self.written: dict[int, Value] = {}
        self.made: dict[Node, int] = {}
        self.results: list[tuple[Result, Value]] = []

    def read_inputs(self) -> None:
        """Take the inputs as arguments of the program, arrays before numbers."""
        for node, i in self.position.items():
            if isinstance(given := self.inputs[i], Window):
                self.buffers[i], self.env[node] = windows.read(self.x, given)
        for node, i in self.position.items():
            if isinstance(given := self.inputs[i], NumberTensor):
                scalar = Scalar(i, _kind(given.dtype), given.dtype)
                self.env[node] = self.x.number(scalar, given.dtype)
            elif isinstance(given, Constant):
                self.env[node] = given.value

    def write_node(self, node: Node) -> None:
        """Compute a node; what it writes to an input is seen by those after it."""
        if not nodes.is_write(node):
            self.env[node] = self.interpreter.value_of(node, self.env)
            return
        target, source = node.args[:2]
        assert isinstance(target, Node) and isinstance(source, Node)
        window = self.window_of(target)
        value = self.x.number(self.env[source], window.dtype)
        if value is not self.env[target]:
            self.written[self.position[target]] = self.x.broadcast(value, window.shape)
            self.env[target] = self.written[self.position[target]]
        self.env[node] = self.env[target]

    def window_of(self, node: Node) -> Window:
        """Where an input, or an output that has been placed, lies."""
        if node in self.made:
            return self.results[self.made[node]][0].window
        window = self.inputs[self.position[node]]
        assert isinstance(window, Window)
        return window

    def place_output(self, node: Node, strides: Callable[[Node], tuple[int, ...] | None]) -> Output:
        """Decide what an output is: a number, the memory of another tensor, or a new one."""
        value = self.env[node]
        if not isinstance(value, Value):
            return Constant(value)
        views = self.views_to(node)
        if views:
            return self.view(views)
        self.made[node] = len(self.results)
        self.results.append((Result(_placed(value, strides(node))), value))
        return New(self.made[node])

    def views_to(self, node: Node) -> list[Node]:
        """The views that lead to an output from a tensor whose memory it may be; [] if none do."""
        views: list[Node] = []
        while nodes.is_view(node) and not nodes.changes_dtype(node):
            views.insert(0, node)
            source = node.args[0]
            assert isinstance(source, Node)
            if source in self.made:
                return views
            if source in self.position:
                return [] if self.position[source] in self.written else views
            node = source
        return []

    def view(self, views: list[Node]) -> View:
        """Where PyTorch's own views put an output in the memory of another tensor."""
        base = views[0].args[0]
        assert isinstance(base, Node)
        window = self.window_of(base)
        seen: Any = torch.empty_strided(
            window.shape, window.strides, dtype=window.dtype, device="meta"
        )
        known: dict[Node, Any] = {base: seen}
        for node in views:
            args, kwargs = map_arg(
                (node.args, node.kwargs), lambda source: known.get(source, self.env[source])
            )
            seen = known[node] = node.target(*args, **kwargs)  # type: ignore[operator]
        return View(
            None if base in self.made else self.position[base],
            self.made.get(base),
            tuple(seen.shape),
            tuple(seen.stride()),
            int(seen.storage_offset()),
        )

    def place_written_inputs(self) -> None:
        """Add what inputs become to the results."""
        for node, i in self.position.items():
            if i in self.written:
                self.results.append((Result(self.window_of(node), i), self.written[i]))

    def old(self, result: Result) -> Value | None:
        """The memory around a written input."""
        return None if result.written is None else self.buffers.get(result.written)

    def finish(self, outputs: list[Output]) -> PieceProgram:
        """End the program with what has elements; tensors without are only allocated."""
        x = self.x
        arrays = {i: g for i, g in enumerate(self.inputs) if isinstance(g, Window) and g.size}
        stored = [(result, value) for result, value in self.results if result.window.size]
        values = [
            windows.write(x, value, result.window, self.old(result)) for result, value in stored
        ]
        signature = Signature(
            tuple(window.buffer for window in arrays.values()),
            tuple(dtypes.element_type(number.dtype) for number in x.scalar_arguments),
            tuple(result.window.buffer for result, _ in stored),
            bool(x.checks),
        )
        return PieceProgram(
            x.finish(values) if values or x.checks else None,
            signature,
            tuple(arrays),
            tuple(x.scalar_arguments),
            x.positions,
            tuple(result for result, _ in self.results),
            tuple(outputs),
            tuple(x.checks),
            tuple(self.interpreter.runs),
            tuple(value for _, value in self.results),
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
