"""A graph of AOTAutograd as a callable over device tensors."""

from __future__ import annotations

import warnings
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
from torch_trainium.compile.program_piece import Compiled, ProgramPiece
from torch_trainium.errors import InputCopyWarning

# After so many programs of one graph, a warning says what varies.
STORM = 8
_numbers = count()


class CompiledGraph:
    """Runs a graph piece by piece.

    Args:
        module: a functional graph with its inputs' writes at the end.
        kind: "forward", "backward" or "inference".
        options: of the `torch.compile` it belongs to.

    """

    def __init__(self, module: GraphModule, kind: str, options: Options) -> None:
        # AOTAutograd then passes one list and gives it away, so that inputs can be freed early.
        self._boxed_call = True
        self.module = module
        self.kind = kind
        self.options = options
        graph = module.graph
        self.placeholders = graph.find_nodes(op="placeholder")
        self.name = f"graph {next(_numbers)} {kind}"
        self.line = _first_line(graph.nodes)
        self.refusals: list[tuple[str, str, str]] = []
        self._constants = {n: _attribute(module, n) for n in graph.find_nodes(op="get_attr")}
        self._results = _flat(graph.output_node().args[0])
        self._device = _device_of(graph.nodes)
        members = [node for node in graph.nodes if node.op == "call_function"]
        for node in members:
            if _is_refused(node):
                self._refuse(node, "it has no lowering")
        is_eager = bool(self.refusals) and options.fallback == "eager"
        self._pieces = self._made(partition(members, members if is_eager else ()))
        self._dying = self._last_uses()

    @property
    def pieces(self) -> Sequence[ProgramPiece | EagerPiece]:
        """What the graph consists of, in the order in which it runs."""
        return self._pieces

    def __call__(self, arguments: list[Any]) -> list[Any]:
        """Run the graph; takes its arguments out of the list."""
        env: dict[Node, Any] = dict(zip(self.placeholders, arguments, strict=True))
        arguments.clear()
        env.update(self._constants)
        position = 0
        while position < len(self._pieces):
            runner = self._pieces[position]
            piece = runner.piece
            given = [env[node] for node in piece.inputs]
            if isinstance(runner, ProgramPiece):
                given = self._on_device(piece, given)
                try:
                    made = runner.run(given)
                except NodeRefusedError as refusal:
                    self._split(position, refusal)
                    continue
            else:
                made = runner.run(given)
            del given
            env.update(zip(piece.outputs, made, strict=True))
            for node in self._dying[position]:
                del env[node]
            position += 1
        return [env[r] if isinstance(r, Node) else r for r in self._results]

    def _made(self, pieces: Sequence[Piece]) -> list[ProgramPiece | EagerPiece]:
        return [
            ProgramPiece(
                piece,
                self.name,
                self._device,
                self.options.max_programs,
                self._watch_recompiles,
            )
            if piece.is_program
            else EagerPiece(piece)
            for piece in pieces
        ]

    def _split(self, position: int, refusal: NodeRefusedError) -> None:
        """Cut a piece around an operator that turned out to have no program."""
        piece = self._pieces[position].piece
        self._refuse(refusal.node, str(refusal.__cause__))
        eager = set(piece.nodes) if self.options.fallback == "eager" else {refusal.node}
        known = set(self._eager_nodes()) | eager
        self._pieces[position : position + 1] = self._made(partition(piece.nodes, known))
        self._dying = self._last_uses()

    def _eager_nodes(self) -> list[Node]:
        return [n for p in self._pieces if isinstance(p, EagerPiece) for n in p.piece.nodes]

    def _refuse(self, node: Node, why: str) -> None:
        failures.refuse(self.module, self.name, self.options, node, why)
        self.refusals.append((str(node.target), nodes.user_line(node), why))

    def _last_uses(self) -> list[list[Node]]:
        """Of each piece, the values that nothing takes after it."""
        last: dict[Node, int] = dict.fromkeys(self.placeholders, 0)
        for position, runner in enumerate(self._pieces):
            last.update(dict.fromkeys((*runner.piece.inputs, *runner.piece.outputs), position))
        kept = {r for r in self._results if isinstance(r, Node)} | set(self._constants)
        dying: list[list[Node]] = [[] for _ in self._pieces]
        for node, position in last.items():
            if node not in kept and self._pieces:
                dying[position].append(node)
        return dying

    def _on_device(self, piece: Piece, given: list[Any]) -> list[Any]:
        """Inputs as a program takes them: CPU tensors that are no numbers are copied."""
        for i, value in enumerate(given):
            if not isinstance(value, torch.Tensor):
                continue
            if value.device.type == "cpu" and value.dim() > 0:
                given[i] = self._copied(piece.inputs[i], value)
            elif value.is_conj() or value.is_neg() or value._is_zerotensor():
                given[i] = value.resolve_conj().resolve_neg().clone()
        return given

    def _copied(self, node: Node, value: torch.Tensor) -> torch.Tensor:
        reader = next(iter(node.users))
        what = (
            f"{self.name} reads {_argument_name(node)} ({str(value.dtype).removeprefix('torch.')}"
            f"{list(value.shape)}), which is on the CPU, in {reader.target} at "
            f"{nodes.user_line(reader)}"
        )
        if self.options.cpu_inputs == "error":
            raise RuntimeError(f"{what}. Move it to the device before the call")
        if self.options.cpu_inputs == "warn":
            warnings.warn(
                f"{what}, and copies it to the device each time. Move it there before the call",
                InputCopyWarning,
                stacklevel=3,
            )
        return value.to(torch.device("neuron", self._device))

    def _watch_recompiles(self, piece: ProgramPiece, compiled: Compiled) -> None:
        if piece.compiles % STORM == 0:
            what = _what_varies(piece)
            failures.warn_of_recompiles(self.name, piece.compiles, what, self.line)


def _is_refused(node: Node) -> bool:
    """Whether an operator on device tensors has no lowering, whatever its arguments are."""
    target = node.target
    return (
        isinstance(target, torch._ops.OpOverload)
        and any(t.device.type == nodes.DEVICE_TYPE for t in nodes.tensors_of(node))
        and nodes.place_of(node) is nodes.Place.EAGER
        and not nodes.is_transfer(node)
        and not nodes.has_lowering(target)
    )


def _attribute(module: GraphModule, node: Node) -> Any:
    value: Any = module
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value


def _flat(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (list, tuple)) else [results]


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


def _argument_name(node: Node) -> str:
    source = node.meta.get("desc") or node.name
    return f"argument {source}"


def _what_varies(piece: ProgramPiece) -> str:
    """The dimension, or the number, that differs between a piece's last two programs."""
    newer, older = piece.programs[-1].inputs, piece.programs[-2].inputs
    for node, new, old in zip(piece.piece.inputs, newer, older, strict=True):
        if new == old:
            continue
        shape, before = getattr(new, "shape", None), getattr(old, "shape", None)
        if shape is None or before is None or len(shape) != len(before):
            return f"{_argument_name(node)}"
        for dim, (length, other) in enumerate(zip(shape, before, strict=True)):
            if length != other:
                return f"dimension {dim} of {_argument_name(node)} ({other}, then {length})"
        return f"the layout of {_argument_name(node)}"
    return "nothing that is known"
