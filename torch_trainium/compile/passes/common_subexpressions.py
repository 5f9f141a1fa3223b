"""The same operator on the same operands, computed once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch.fx import Graph, Node

from torch_trainium.compile import nodes
from torch_trainium.compile.passes.replacing import is_result, replace


def common_subexpressions(graph: Graph) -> None:
    """Let who reads a node read the first that computes the same."""
    known: dict[Hashable, Node] = {}
    for node in list(graph.nodes):
        key = _key(node)
        if key is None:
            continue
        first = known.setdefault(key, node)
        # Two results are two tensors, which the user may change one by one.
        if first is not node and not is_result(node):
            replace(node, first)


def _key(node: Node) -> Hashable | None:
    """What a node computes; None where that may differ from call to call, or is a write."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        if target._schema.is_mutable or nodes.is_random(node):
            return None
    elif not nodes.is_getitem(node):
        return None
    if node.meta.get("unbacked_bindings") or _is_allocation(target):
        return None
    try:
        key = (target, _frozen(node.args), _frozen(node.kwargs))
        hash(key)
    except TypeError:
        return None
    return key


def _is_allocation(target: Any) -> bool:
    """Whether an operator gives memory whose elements are not determined."""
    return isinstance(target, torch._ops.OpOverload) and "empty" in target._schema.name


def _frozen(argument: Any) -> Hashable:
    """An argument that compares equal to those alone that are the same, 1 and 1.0 being two."""
    if isinstance(argument, (list, tuple)):
        return tuple(map(_frozen, argument))
    if isinstance(argument, dict):
        return tuple((name, _frozen(value)) for name, value in sorted(argument.items()))
    return type(argument), argument
