"""A piece of a graph as programs: one for each kind of inputs that it is called with."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from torch_trainium import _C
from torch_trainium.compile import costing, lower
from torch_trainium.compile.lower import Constant, Input, New, NumberTensor, PieceProgram, View
from torch_trainium.compile.partition import Piece
from torch_trainium.compile.sizes import Sizes
from torch_trainium.engines import programs
from torch_trainium.engines.engine import ALIGNMENT_BYTES
from torch_trainium.errors import LoweringError
from torch_trainium.hardware import costs
from torch_trainium.lowering.numbers import RANDOM_WORDS
from torch_trainium.lowering.windows import Window

_WORDS = list(RANDOM_WORDS)


@dataclass(frozen=True)
class Compiled:
    """One program of a piece.

    Attributes:
        inputs: what it was compiled for.
        graph_program: what checks arguments and runs it; None where there is nothing to compute.
        assemble: the piece's outputs, from its arguments and the new results.
        cost: what the timeline charges.
        seconds: how long it took to write and compile.

    """

    inputs: tuple[Input, ...]
    graph_program: _C.graphs.GraphProgram
    assemble: Callable[[list[Any], list[torch.Tensor]], list[Any]]
    cost: costs.Program
    seconds: float


class ProgramPiece:
    """Runs a piece as a program, compiled when its inputs are first seen.

    Args:
        piece: what it consists of.
        name: what programs and reports call it.
        device: index of the device it runs on.
        max_programs: how many programs are kept, those used last.
        on_compile: called with each new program.

    """

    def __init__(
        self,
        piece: Piece,
        name: str,
        device: int,
        max_programs: int,
        on_compile: Callable[[ProgramPiece, Compiled], None],
    ) -> None:
        self.piece = piece
        self.name = name
        self.compiles = 0
        self._device = device
        self._max_programs = max_programs
        self._on_compile = on_compile
        self._programs: OrderedDict[int, Compiled] = OrderedDict()

    @property
    def programs(self) -> list[Compiled]:
        """The programs that are kept, the one used last at the end."""
        return list(self._programs.values())

    def run(self, arguments: list[Any]) -> list[Any]:
        """The outputs for these inputs.

        Raises:
            NodeRefusedError: a node cannot be expressed as a program; nothing has run.

        """
        for key in reversed(self._programs):
            compiled = self._programs[key]
            made = compiled.graph_program.run(arguments)
            if made is not None:
                self._programs.move_to_end(key)
                return compiled.assemble(arguments, made)
        compiled = self._compile(arguments)
        made = compiled.graph_program.run(arguments)
        assert made is not None, "a program does not take the arguments it was compiled for"
        return compiled.assemble(arguments, made)

    def _compile(self, arguments: Sequence[Any]) -> Compiled:
        # A thread of its own has none of the caller's modes, guards and dispatch keys.
        compiled = _compiler().submit(self._compile_now, arguments).result()
        self.compiles += 1
        self._programs[self.compiles] = compiled
        if len(self._programs) > self._max_programs:
            self._programs.popitem(last=False)
        self._on_compile(self, compiled)
        return compiled

    def _compile_now(self, arguments: Sequence[Any]) -> Compiled:
        start = time.perf_counter()
        inputs = tuple(map(_describe, arguments))
        sizes = Sizes(zip(self.piece.inputs, arguments, strict=True))
        written = lower.lower(self.piece, inputs, sizes.strides)
        cost = costing.cost_program(self.piece, written)
        run: Callable[..., int] = _nothing_to_run
        if written.module is not None:
            cache_ = programs.program_cache()
            run = cache_.get(written.module, written.signature, self.name).run
        graph_program = _C.graphs.GraphProgram(
            name=self.name,
            device=self._device,
            expectations=list(map(_expectation, inputs)),
            inputs=written.arrays,
            numbers=[
                n.sources[0] if n.sources else -1 - _WORDS.index(n.function)
                for n in written.numbers
            ],
            results=[(_layout(r.window), r.written) for r in written.results],
            random_positions=written.positions,
            workspace_bytes=0,
            nodes=cost.descriptions(),
            run=run,
            checks=list(written.checks),
        )
        return Compiled(
            inputs, graph_program, _assembly(written), cost, time.perf_counter() - start
        )


def _nothing_to_run(inputs: Sequence[int], numbers: Sequence[Any], outputs: Sequence[int]) -> int:
    return 0


def _describe(value: Any) -> Input:
    if not isinstance(value, torch.Tensor):
        return Constant(value)
    if value.device.type == "cpu":
        return NumberTensor(value.dtype)
    offset, rest = divmod(value.data_ptr() % ALIGNMENT_BYTES, value.itemsize)
    if rest and value.numel():
        raise LoweringError("a tensor starts between two elements of its dtype; clone() it")
    return Window(value.dtype, tuple(value.shape), value.stride(), offset)


def _expectation(given: Input) -> tuple[str, Any]:
    if isinstance(given, Window):
        return "tensor", _layout(given)
    if isinstance(given, NumberTensor):
        return "number", given.dtype
    return "constant", given.value


def _layout(window: Window) -> tuple[Any, ...]:
    return window.dtype, window.shape, window.strides, window.offset * window.dtype.itemsize


def _assembly(written: PieceProgram) -> Callable[[list[Any], list[torch.Tensor]], list[Any]]:
    """What makes the piece's outputs of its arguments and new results."""
    new = sum(result.written is None for result in written.results)
    if written.outputs == tuple(New(index) for index in range(new)):
        return lambda arguments, made: made

    def assemble(arguments: list[Any], made: list[torch.Tensor]) -> list[Any]:
        outputs: list[Any] = []
        for output in written.outputs:
            if isinstance(output, New):
                outputs.append(made[output.index])
            elif isinstance(output, View):
                position, index = output.of_input, output.of_result
                base = arguments[position] if position is not None else made[index or 0]
                offset = base.storage_offset() + output.offset
                outputs.append(base.as_strided(output.shape, output.strides, offset))
            else:
                outputs.append(output.value)
        return outputs

    return assemble


@cache
def _compiler() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="torch_trainium graph compiler")
