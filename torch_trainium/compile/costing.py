"""A piece of a graph as the cost model takes it: operators, shapes and who reads whose result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from torch_trainium.compile import nodes
from torch_trainium.compile.lower import Array, PieceProgram
from torch_trainium.compile.partition import Piece
from torch_trainium.hardware import costs
from torch_trainium.hardware.operator_classes import cost_class_of, is_listed
from torch_trainium.lowering import registry

# Operators that have a lowering and that no eager program calls, such as functional forms.
CLASS_OF_UNLISTED = "pointwise"


def cost_program(piece: Piece, program: PieceProgram) -> costs.Program:
    """What the timeline charges for a piece."""
    arrays_of = program.arrays_of
    rows = []
    for node in piece.nodes:
        given = arrays_of[node]
        if not isinstance(node.target, torch._ops.OpOverload) or not given:
            continue
        operands = [n for n in tree_leaves((node.args, node.kwargs)) if isinstance(n, Node)]
        read = [array for n in operands for array in arrays_of[n]]
        call = costs.OperatorCall(
            registry.qualified_name(node.target),
            _tensor_shapes(read),
            _tensor_shapes(given),
            cost_class=_cost_class(node.target),
        )
        rows.append(costs.ProgramNode(call, _identities(read), _identities(given)))
    leaving = [n for n in piece.nodes if n in piece.outputs or nodes.is_write(n)]
    outputs = frozenset(array.identity for n in leaving for array in arrays_of[n])
    return costs.Program(tuple(rows), outputs)


def _cost_class(target: Any) -> str:
    name = registry.qualified_name(target)
    return cost_class_of(name) if is_listed(name) else CLASS_OF_UNLISTED


def _identities(arrays: Sequence[Array]) -> tuple[int, ...]:
    return tuple(array.identity for array in arrays)


def _tensor_shapes(arrays: Sequence[Array]) -> tuple[costs.TensorShape, ...]:
    return tuple(
        costs.TensorShape(array.shape, str(array.dtype).removeprefix("torch.")) for array in arrays
    )
