"""Where a graph's values are while it runs: a list to which every piece adds its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule, Node

from torch_trainium.compile import nodes
from torch_trainium.compile.partition import Piece


@dataclass(frozen=True)
class Step:
    """One piece.

    Attributes:
        taken: slots of its inputs.
        dying: slots that nothing reads after it.

    """

    taken: tuple[int, ...]
    dying: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """A graph's slots: first its arguments, then its constants, then what each piece gives.

    Attributes:
        constants: tensors of the module, and results that are no nodes.
        steps: one for each piece.
        results: slots of what the graph returns.

    """

    constants: tuple[Any, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]


def plan(module: GraphModule, pieces: Sequence[Piece]) -> Plan:
    """Give every value a slot."""
    graph = module.graph
    slots: dict[Node, int] = {}
    for node in graph.find_nodes(op="placeholder", sort=True):
        slots[node] = len(slots)
    constants: list[Any] = []
    first_constant = len(slots)
    for node in graph.find_nodes(op="get_attr", sort=True):
        slots[node] = first_constant + len(constants)
        constants.append(nodes.attribute(module, str(node.target)))
    results: list[Node | int] = []
    returned = graph.output_node().args[0]
    for result in returned if isinstance(returned, (list, tuple)) else (returned,):
        if isinstance(result, Node):
            # What a write gives is the input it writes to.
            results.append(result.all_input_nodes[0] if nodes.is_write(result) else result)
        else:
            results.append(first_constant + len(constants))
            constants.append(result)
    next_slot = first_constant + len(constants)
    last_use: dict[Node, int] = {}
    for position, piece in enumerate(pieces):
        for node in piece.outputs:
            slots[node] = next_slot
            next_slot += 1
        last_use.update(dict.fromkeys((*piece.inputs, *piece.outputs), position))
    for result in results:
        if isinstance(result, Node):
            last_use.pop(result, None)
    steps = tuple(
        Step(
            tuple(slots[node] for node in piece.inputs),
            tuple(slots[node] for node, last in last_use.items() if last == position),
        )
        for position, piece in enumerate(pieces)
    )
    return Plan(
        tuple(constants), steps, tuple(slots[r] if isinstance(r, Node) else r for r in results)
    )
