"""Conversions that change nothing: to the dtype that a tensor has, or to a wider one and back."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.fx import Graph, Node

from torch_trainium.compile.passes.replacing import is_result, replace

CAST = torch.ops.aten._to_copy.default
# dtype: those that hold each of its numbers.
WIDER: Mapping[torch.dtype, frozenset[torch.dtype]] = {
    torch.bfloat16: frozenset((torch.float32, torch.float64)),
    torch.float16: frozenset((torch.float32, torch.float64)),
    torch.float32: frozenset((torch.float64,)),
    torch.int8: frozenset((torch.int16, torch.int32, torch.int64)),
    torch.uint8: frozenset((torch.int16, torch.int32, torch.int64)),
    torch.int16: frozenset((torch.int32, torch.int64)),
    torch.int32: frozenset((torch.int64,)),
}


def casts(graph: Graph) -> None:
    """Read what such a conversion converts instead of what it gives."""
    for node in graph.find_nodes(op="call_function", target=CAST, sort=True):
        source = _converted(node)
        if source is None or is_result(node):
            continue
        before = source.meta["val"].dtype
        given = node.meta["val"].dtype
        if given is before:
            replace(node, source)
            continue
        origin = _converted(source) if source.target is CAST else None
        if (
            origin is not None
            and origin.meta["val"].dtype is given
            and before in WIDER.get(given, ())
        ):
            replace(node, origin)


def _converted(node: Node) -> Node | None:
    """What a node converts, if it does nothing but that."""
    source = node.args[0]
    if set(node.kwargs) - {"dtype"} or not isinstance(source, Node):
        return None
    return source if isinstance(source.meta.get("val"), torch.Tensor) else None
