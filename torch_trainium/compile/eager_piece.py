"""Operators of a graph that run one by one: on the host, between devices, or without a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from torch_trainium import _C
from torch_trainium.compile import nodes, user_frames
from torch_trainium.compile.partition import Piece


class EagerPiece:
    """Runs the nodes of a piece in order, as eager mode would.

    Args:
        piece: what it consists of.
        refusals: of nodes that are CPU fallbacks because they cannot be expressed, why.

    """

    def __init__(self, piece: Piece, refusals: Mapping[Node, str]) -> None:
        self.piece = piece
        self._calls = [(node, _call_of(node, refusals.get(node, ""))) for node in piece.nodes]

    def run(self, arguments: list[Any]) -> list[Any]:
        """The outputs for these inputs.

        Raises:
            FallbackError: a node is a CPU fallback, and the policy refuses it by now.

        """
        env: dict[Node, Any] = dict(zip(self.piece.inputs, arguments, strict=True))
        with torch.no_grad():
            for node, call in self._calls:
                args, kwargs = map_arg((node.args, node.kwargs), env.__getitem__)
                env[node] = call(args, kwargs)
        return [env[node] for node in self.piece.outputs]


def _call_of(node: Node, refusal: str) -> Callable[[Any, Any], Any]:
    frame = nodes.user_frame(node)
    caller: Any = user_frames.caller_at(*frame) if frame else user_frames.call_here
    call: Callable[[Any, Any], Any] = partial(caller, node.target)
    if not refusal:
        return call
    name = nodes.operator_name(node)
    return lambda args, kwargs: _C.fallbacks.call_without_program(
        name, refusal, partial(call, args, kwargs)
    )
