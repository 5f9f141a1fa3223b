"""Cuts a graph into programs and the operators that run eagerly between them.

Most graphs are one program. An operator on CPU tensors, a transfer or an operator without a program
runs by itself, before or after the programs that need it or that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from torch.fx import Node

from torch_trainium.compile import nodes
from torch_trainium.compile.nodes import Place


@dataclass(frozen=True)
class Piece:
    """Nodes that run together.

    Attributes:
        is_program: else they run one by one.
        nodes: in the graph's order.
        inputs: nodes of other pieces, and inputs of the graph, whose values they take.
        outputs: those of them that other pieces or the graph's result take.

    """

    is_program: bool
    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]


def partition(members: Sequence[Node], eager: Collection[Node] = ()) -> list[Piece]:
    """The pieces of a graph, or of a part of it, in an order in which they can run.

    Args:
        members: operators in the graph's order, functional but for writes to its inputs at the end.
        eager: those that shall be in no program.

    """
    levels = _levels(members, lambda n: Place.EAGER if n in eager else nodes.place_of(n))
    by_level: dict[int, list[Node]] = {}
    for node, level in levels.items():
        by_level.setdefault(level, []).append(node)
    return [_piece(by_level[level], level % 2 == 1) for level in sorted(by_level)]


def _levels(members: Sequence[Node], place_of: Callable[[Node], Place]) -> dict[Node, int]:
    """Of each node, which piece it is in: odd levels are programs, even ones run eagerly."""
    levels: dict[Node, int] = {}
    last_random = 0
    for node in members:
        sources = node.all_input_nodes
        before = [levels.get(source, 0) for source in sources]
        place = place_of(node)
        if nodes.is_getitem(node) or place is Place.ANYWHERE:
            place = _place_beside(node, levels)
        if nodes.is_random(node):
            before.append(last_random)
        if nodes.is_write(node):
            before += [levels[user] for user in sources[0].users if user in levels]
        parity = 1 if place is Place.PROGRAM else 0
        levels[node] = max((b if b % 2 == parity else b + 1 for b in before), default=parity)
        if nodes.is_random(node):
            last_random = levels[node]
    return levels


def _place_beside(node: Node, levels: dict[Node, int]) -> Place:
    """What picks a result, or computes with sizes, is where its operands are."""
    computed = [levels[source] for source in node.all_input_nodes if source in levels]
    return Place.EAGER if computed and max(computed) % 2 == 0 else Place.PROGRAM


def _piece(members: list[Node], is_program: bool) -> Piece:
    inside = set(members)
    inputs = dict.fromkeys(
        source for node in members for source in node.all_input_nodes if source not in inside
    )
    outputs = [node for node in members if any(user not in inside for user in node.users)]
    return Piece(is_program, tuple(members), tuple(inputs), tuple(outputs))
