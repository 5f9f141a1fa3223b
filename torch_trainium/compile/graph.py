"""A graph of AOTAutograd as a callable over device tensors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_trainium.compile import failures, nodes, refusals
from torch_trainium.compile.eager_piece import EagerPiece
from torch_trainium.compile.interpret import NodeRefusedError
from torch_trainium.compile.options import Options
from torch_trainium.compile.partition import Piece, partition
from torch_trainium.compile.passes import simplify
from torch_trainium.compile.plan import Plan, plan
from torch_trainium.compile.program_piece import ProgramPiece, ProgramRefusedError
from torch_trainium.compile.refusals import Refusal

_numbers = count()


class CompiledGraph:
    """Runs a graph piece by piece.

    Args:
        module: a functional graph with its inputs' writes at the end.
        kind: "forward", "backward" or "inference".
        options: of the `torch.compile` it belongs to.

    Attributes:
        name: what programs, warnings and the timeline call it.
        line: the user's line that it starts at.
        pieces: what it consists of, in the order in which they run.
        refusals: operators that are in no program.

    """

    def __init__(self, module: GraphModule, kind: str, options: Options) -> None:
        # AOTAutograd then passes one list and gives it away, so that inputs can be freed early.
        self._boxed_call = True
        simplify(module.graph, options.passes)
        self.module = module
        self.kind = kind
        self.options = options
        self.name = f"graph {next(_numbers)} {kind}"
        self.refusals: list[Refusal] = []
        self.pieces: list[ProgramPiece | EagerPiece] = []
        self.line = _first_line(module.graph.nodes)
        self._device = _device_of(module.graph.nodes)
        self._plan: Plan | None = None

    def __call__(self, arguments: list[Any]) -> list[Any]:
        """Run the graph; takes its arguments out of the list.

        Raises:
            GraphCompileError: an operator has no program, or the compiler fails, and nothing else
                is allowed.

        """
        if self._plan is None:
            self._plan = self._cut()
        values = [*arguments, *self._plan.constants]
        arguments.clear()
        position = 0
        while position < len(self.pieces):
            step = self._plan.steps[position]
            given = [values[slot] for slot in step.taken]
            try:
                values += self.pieces[position].run(given)
            except NodeRefusedError as refused:
                refusal = refusals.refusal_of_lowering(refused.node, str(refused.__cause__))
                failures.refuse(self.module, self.name, self.options, refusal)
                self.refusals.append(refusal)
                self._cut_again(position, whole=self.options.fallback == "eager")
                continue
            except ProgramRefusedError as error:
                failures.fail(self.module, self.name, self.line, self.options, error)
                self._cut_again(position, whole=True)
                continue
            for slot in step.dying:
                values[slot] = None
            position += 1
        return [values[slot] for slot in self._plan.results]

    def _cut(self) -> Plan:
        # On the first run: Dynamo swallows warnings while it compiles.
        members = [node for node in self.module.graph.nodes if node.op == "call_function"]
        found = list(filter(None, map(refusals.refusal, members)))
        for refusal in found:
            failures.refuse(self.module, self.name, self.options, refusal)
        self.refusals = found
        is_eager = bool(self.refusals) and self.options.fallback == "eager"
        self.pieces = self._made(partition(members, members if is_eager else self._refused()))
        return plan(self.module, [runner.piece for runner in self.pieces])

    def _made(self, pieces: Sequence[Piece]) -> list[ProgramPiece | EagerPiece]:
        reasons = {r.node: r.why for r in self.refusals if r.is_cpu_fallback}
        return [
            ProgramPiece(piece, self.name, self.line, self._device, self.options)
            if piece.is_program
            else EagerPiece(piece, reasons)
            for piece in pieces
        ]

    def _cut_again(self, position: int, *, whole: bool) -> None:
        """Cut a piece that has not run around its refused nodes, or make all of it eager."""
        members = self.pieces[position].piece.nodes
        eager = members if whole else self._refused()
        self.pieces[position : position + 1] = self._made(partition(members, eager))
        self._plan = plan(self.module, [runner.piece for runner in self.pieces])

    def _refused(self) -> list[Node]:
        return [refusal.node for refusal in self.refusals]


def _device_of(members: Any) -> int:
    """The device that a graph runs on: that of its first tensor there."""
    for node in members:
        if node.op != "output":
            for tensor in nodes.tensors_of(node):
                if nodes.is_on_device(tensor):
                    return tensor.device.index or 0
    return torch.neuron.current_device()  # type: ignore[attr-defined,no-any-return]


def _first_line(members: Any) -> str:
    traced = (node for node in members if node.stack_trace)
    first = next(traced, None)
    return nodes.user_line(first) if first is not None else "a line that was not recorded"
