"""A piece of a graph as programs: one for each kind of inputs that it is called with."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from torch_trainium import _C
from torch_trainium.compile import artifacts, costing, failures, inputs, lower
from torch_trainium.compile.lower import Input, New, NumberTensor, PieceProgram, View
from torch_trainium.compile.options import Options
from torch_trainium.compile.partition import Piece
from torch_trainium.compile.sizes import Sizes
from torch_trainium.engines import programs
from torch_trainium.engines.programs import Found
from torch_trainium.hardware import costs
from torch_trainium.lowering.numbers import RANDOM_WORDS
from torch_trainium.lowering.windows import Window

_WORDS = list(RANDOM_WORDS)
# After so many programs of one graph, and again after as many, a warning says what varies.
STORM = 8


@dataclass(frozen=True)
class Compiled:
    """One program of a piece.

    Attributes:
        inputs: what it was compiled for.
        graph_program: what checks arguments and runs it; None where there is nothing to compute.
        assemble: the piece's outputs, from its arguments and the new results.
        found: the program as the cache knows it; None where there is nothing to compute.
        cost: what the timeline charges.
        seconds: how long it took to write and compile.

    """

    inputs: tuple[Input, ...]
    graph_program: _C.graphs.GraphProgram
    assemble: Callable[[list[Any], list[torch.Tensor]], list[Any]]
    found: Found | None
    cost: costs.Program
    seconds: float


class ProgramPiece:
    """Runs a piece as a program, compiled when its inputs are first seen.

    Args:
        piece: what it consists of.
        name: what programs and reports call its graph.
        line: the user's line that the graph starts at.
        device: index of the device it runs on.
        options: of the `torch.compile` it belongs to.

    Attributes:
        programs: those that are kept, the one used last at the end.
        compiles: how many there have been.

    """

    def __init__(self, piece: Piece, name: str, line: str, device: int, options: Options) -> None:
        self.piece = piece
        self.name = name
        self.line = line
        self.programs: list[Compiled] = []
        self.compiles = 0
        self._device = device
        self._options = options

    def run(self, arguments: list[Any]) -> list[Any]:
        """The outputs for these inputs.

        Raises:
            BucketError: a size that varies is none of the buckets.
            NodeRefusedError: a node cannot be expressed as a program; nothing has run.
            ProgramRefusedError: the compiler fails; nothing has run.

        """
        outputs = self._run_known(arguments)
        if outputs is not None:
            return outputs
        arguments = inputs.on_device(self._device, arguments)
        outputs = self._run_known(arguments)
        if outputs is not None:
            return outputs
        # A thread of its own has none of the caller's modes, guards and dispatch keys.
        compiled = _compiler().submit(self._compile_now, arguments).result()
        self._keep(compiled)
        made = compiled.graph_program.run(arguments)
        assert made is not None, "a program does not take the arguments it was compiled for"
        return compiled.assemble(arguments, made)

    def _run_known(self, arguments: list[Any]) -> list[Any] | None:
        """The outputs of a program that is there; None where none was compiled for such inputs."""
        for compiled in reversed(self.programs):
            made = compiled.graph_program.run(arguments)
            if made is None:
                continue
            if compiled is not self.programs[-1]:
                # A list of its own: other threads may be reading the old one.
                self.programs = [p for p in self.programs if p is not compiled] + [compiled]
            return compiled.assemble(arguments, made)
        return None

    def _keep(self, compiled: Compiled) -> None:
        self.compiles += 1
        self.programs = [*self.programs, compiled][-self._options.max_programs :]
        if self.compiles % STORM == 0 and len(self.programs) > 1:
            newer, older = self.programs[-1].inputs, self.programs[-2].inputs
            failures.warn_of_recompiles(
                self.name, self.compiles, inputs.what_varies(self.piece, older, newer), self.line
            )

    def _compile_now(self, arguments: Sequence[Any]) -> Compiled:
        start = time.perf_counter()
        described = tuple(map(inputs.describe, arguments))
        sizes = Sizes(zip(self.piece.inputs, arguments, strict=True))
        for place in sizes.varying() if self._options.buckets else ():
            failures.expect_bucket(self.name, self.line, self._options.buckets, *place)
        written = lower.lower(self.piece, described, sizes.strides)
        cost = costing.cost_program(written)
        found, capsule, workspace_bytes = None, None, 0
        if written.module is not None:
            found = _found(written, self.name)
            capsule, workspace_bytes = found.program.capsule(), found.program.workspace_bytes()
        graph_program = _C.graphs.GraphProgram(
            name=self.name,
            device=self._device,
            expectations=list(map(_expectation, described)),
            inputs=written.arrays,
            numbers=[
                (n.sources[0] if n.sources else -1 - _WORDS.index(n.function), n.dtype)
                for n in written.numbers
            ],
            results=[(_layout(r.window), r.written) for r in written.results],
            random_positions=written.positions,
            workspace_bytes=workspace_bytes,
            nodes=cost.descriptions(),
            program=capsule,
            checks=list(written.checks),
        )
        seconds = time.perf_counter() - start
        return Compiled(described, graph_program, _assembly(written), found, cost, seconds)


class ProgramRefusedError(RuntimeError):
    """The compiler does not take a program that the lowerings have written."""


def _found(written: PieceProgram, name: str) -> Found:
    assert written.module is not None
    try:
        found = programs.program_cache().get(written.module, written.signature, name)
    except RuntimeError as error:
        raise ProgramRefusedError(str(error)) from error
    artifacts.record(found)
    return found


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
