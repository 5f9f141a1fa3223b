"""Operators whose results nobody reads."""

from __future__ import annotations

from torch.fx import Graph, Node

from torch_trainium.compile import nodes


def dead_code(graph: Graph) -> None:
    """Remove them, but for those that do something besides: writes, and draws of random numbers."""
    graph.eliminate_dead_code(is_impure_node=_acts)


def _acts(node: Node) -> bool:
    return node.op != "call_function" or node.is_impure() or nodes.is_random(node)
