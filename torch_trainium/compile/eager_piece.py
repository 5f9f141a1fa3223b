"""Operators of a graph that run one by one: on the host, between devices, or without a program."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from torch_trainium.compile.partition import Piece


class EagerPiece:
    """Runs the nodes of a piece in order, as eager mode would."""

    def __init__(self, piece: Piece) -> None:
        self.piece = piece

    def run(self, arguments: list[Any]) -> list[Any]:
        """The outputs for these inputs."""
        env: dict[Node, Any] = dict(zip(self.piece.inputs, arguments, strict=True))
        with torch.no_grad():
            for node in self.piece.nodes:
                args, kwargs = map_arg((node.args, node.kwargs), env.__getitem__)
                env[node] = node.target(*args, **kwargs)  # type: ignore[operator]
        return [env[node] for node in self.piece.outputs]
