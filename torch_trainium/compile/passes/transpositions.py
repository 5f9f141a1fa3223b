"""Permutations of permutations: one is enough, and none where they undo each other."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from torch_trainium.compile.passes.replacing import is_result, replace

aten = torch.ops.aten


def transpositions(graph: Graph) -> None:
    """Let each permutation be one of what others permuted before it."""
    for node in list(graph.nodes):
        outer = _permutation(node)
        if outer is None:
            continue
        source: Any = node.args[0]
        inner = _permutation(source)
        order = outer if inner is None else [inner[d] for d in outer]
        origin = source if inner is None else source.args[0]
        if order == list(range(len(order))) and not is_result(node):
            replace(node, origin)
        elif inner is not None:
            with graph.inserting_before(node):
                combined = graph.call_function(aten.permute.default, (origin, order))
            combined.meta = dict(node.meta)
            replace(node, combined)


def _permutation(node: Node) -> list[int] | None:
    """The order in which a node puts the dimensions of its operand; None for other nodes."""
    fake = node.meta.get("val")
    if not isinstance(fake, torch.Tensor):
        return None
    order = list(range(fake.dim()))
    arguments: Any = node.args[1:]
    if node.target is aten.t.default:
        return order[::-1]
    if node.target is aten.permute.default:
        return [d % len(order) for d in arguments[0]] if order else []
    if node.target is aten.transpose.int and order:
        first, second = (d % len(order) for d in arguments)
        order[first], order[second] = order[second], order[first]
        return order
    return None
