"""A graph of AOTAutograd as a callable over device tensors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_trainium.compile import failures, nodes
from torch_trainium.compile.eager_piece import EagerPiece
from torch_trainium.compile.lower import NodeRefusedError
from torch_trainium.compile.options import Options
from torch_trainium.compile.partition import Piece, partition
from torch_trainium.compile.plan import Plan, plan
from torch_trainium.compile.program_piece import ProgramPiece, ProgramRefusedError

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
        refusals: operators that are in no program, with the user's line and the reason.

    """

    def __init__(self, module: GraphModule, kind: str, options: Options) -> None:
        # AOTAutograd then passes one list and gives it away, so that inputs can be freed early.
        self._boxed_call = True
        self.module = module
        self.kind = kind
        self.options = options
        self.name = f"graph {next(_numbers)} {kind}"
        self.refusals: list[tuple[str, str, str]] = []
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
            except NodeRefusedError as refusal:
                self._refuse(refusal.node, str(refusal.__cause__))
                self._run_eagerly(position, refusal.node)
                continue
            except ProgramRefusedError as refusal:
                failures.fail(self.module, self.name, self.line, self.options, refusal)
                self._run_eagerly(position)
                continue
            for slot in step.dying:
                values[slot] = None
            position += 1
        return [values[slot] for slot in self._plan.results]

    def _cut(self) -> Plan:
        # On the first run: Dynamo swallows warnings while it compiles.
        members = [node for node in self.module.graph.nodes if node.op == "call_function"]
        for node in members:
            if _is_refused(node):
                self._refuse(node, "it has no lowering")
        is_eager = bool(self.refusals) and self.options.fallback == "eager"
        self.pieces = self._made(partition(members, members if is_eager else ()))
        return plan(self.module, [runner.piece for runner in self.pieces])

    def _made(self, pieces: Sequence[Piece]) -> list[ProgramPiece | EagerPiece]:
        return [
            ProgramPiece(piece, self.name, self.line, self._device, self.options)
            if piece.is_program
            else EagerPiece(piece)
            for piece in pieces
        ]

    def _run_eagerly(self, position: int, node: Node | None = None) -> None:
        """Cut a piece that has not run around a node, or run all of it operator by operator."""
        piece = self.pieces[position].piece
        if node is None or self.options.fallback == "eager":
            eager: tuple[Node, ...] = piece.nodes
        else:
            eager = (node, *self._eager_nodes())
        self.pieces[position : position + 1] = self._made(partition(piece.nodes, eager))
        self._plan = plan(self.module, [runner.piece for runner in self.pieces])

    def _eager_nodes(self) -> list[Node]:
        return [n for p in self.pieces if isinstance(p, EagerPiece) for n in p.piece.nodes]

    def _refuse(self, node: Node, why: str) -> None:
        failures.refuse(self.module, self.name, self.options, node, why)
        self.refusals.append((str(node.target), nodes.user_line(node), why))


def _is_refused(node: Node) -> bool:
    """Whether an operator on device tensors has no lowering, whatever its arguments are."""
    target = node.target
    return (
        isinstance(target, torch._ops.OperatorBase)
        and any(t.device.type == nodes.DEVICE_TYPE for t in nodes.tensors_of(node))
        and nodes.place_of(node) is nodes.Place.EAGER
        and not nodes.is_transfer(node)
        and not (isinstance(target, torch._ops.OpOverload) and nodes.has_lowering(target))
    )


def _device_of(members: Any) -> int:
    """The device that a graph runs on: that of its first tensor there."""
    for node in members:
        if node.op != "output":
            for tensor in nodes.tensors_of(node):
                if tensor.device.type == nodes.DEVICE_TYPE:
                    return tensor.device.index or 0
    return torch.neuron.current_device()  # type: ignore[attr-defined,no-any-return]


def _first_line(members: Any) -> str:
    traced = (node for node in members if node.stack_trace)
    first = next(traced, None)
    return nodes.user_line(first) if first is not None else "a line that was not recorded"
