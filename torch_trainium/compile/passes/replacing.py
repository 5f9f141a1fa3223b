"""Puts one node of a graph in the place of another."""

from __future__ import annotations

from torch.fx import Node


def is_result(node: Node) -> bool:
    """Whether the graph returns a node: results stay tensors of their own."""
    return any(user.op == "output" for user in node.users)


def replace(node: Node, other: Node) -> None:
    """Let all who read a node read another, and remove it."""
    node.replace_all_uses_with(other)
    node.graph.erase_node(node)
