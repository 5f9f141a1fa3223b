"""A piece of a graph as the cost model takes it: operators, shapes and who reads whose result."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import torch
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from torch_trainium.compile import nodes
from torch_trainium.compile.lower import PieceProgram
from torch_trainium.compile.partition import Piece
from torch_trainium.hardware import costs
from torch_trainium.hardware.operator_classes import cost_class_of, is_listed
from torch_trainium.lowering import registry

# Operators that have a lowering and that no eager program calls, such as functional forms.
CLASS_OF_UNLISTED = "pointwise"


def cost_program(piece: Piece, program: PieceProgram) -> costs.Program:
    """What the timeline charges for a piece."""
    identities = count()
    tensors: dict[Node, list[int]] = {
        node: [next(identities) for _ in shapes] for node, shapes in program.shapes.items()
    }
    rows: list[costs.ProgramNode] = []
    for node in piece.nodes:
        if nodes.is_getitem(node):
            source, index = node.args
            assert isinstance(source, Node) and isinstance(index, int)
            tensors[node] = _part(program, source, index, tensors[source])
            continue
        if not isinstance(node.target, torch._ops.OpOverload) or not program.shapes[node]:
            continue
        operands = [n for n in tree_leaves((node.args, node.kwargs)) if isinstance(n, Node)]
        shapes = [shape for n in operands for shape in program.shapes[n]]
        call = costs.OperatorCall(
            registry.qualified_name(node.target),
            _tensor_shapes(shapes),
            _tensor_shapes(program.shapes[node]),
            cost_class=_cost_class(node.target),
        )
        read = tuple(identity for n in operands for identity in tensors[n])
        rows.append(costs.ProgramNode(call, read, tuple(tensors[node])))
    leaving = frozenset(
        identity
        for node in piece.nodes
        if node in piece.outputs or nodes.is_write(node)
        for identity in tensors[node]
    )
    return costs.Program(tuple(rows), leaving)


def _part(program: PieceProgram, source: Node, index: int, identities: list[int]) -> list[int]:
    """One of several results is not a tensor of its own; a list among them is left whole."""
    return identities[index : index + 1] if len(identities) > index else identities


def _cost_class(target: Any) -> str:
    name = registry.qualified_name(target)
    return cost_class_of(name) if is_listed(name) else CLASS_OF_UNLISTED


def _tensor_shapes(
    shapes: Sequence[tuple[torch.dtype, tuple[int, ...]]],
) -> tuple[costs.TensorShape, ...]:
    return tuple(
        costs.TensorShape(shape, str(dtype).removeprefix("torch.")) for dtype, shape in shapes
    )
