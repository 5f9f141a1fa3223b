"""A program of a graph as the cost model takes it: operators, shapes and who reads whose result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch_trainium.compile import nodes
from torch_trainium.compile.lower import PieceProgram
from torch_trainium.hardware import costs
from torch_trainium.hardware.operator_classes import cost_class_of, is_listed
from torch_trainium.lowering import registry
from torch_trainium.lowering.values import Value

# Operators that have a lowering and that no eager program calls, such as functional forms.
CLASS_OF_UNLISTED = "pointwise"


def cost_program(program: PieceProgram) -> costs.Program:
    """What the timeline charges for a program."""
    rows = []
    for target, read, given in program.runs:
        if not given:
            continue
        call = costs.OperatorCall(
            registry.qualified_name(target),
            _tensor_shapes(read),
            _tensor_shapes(given),
            cost_class=_cost_class(target),
        )
        rows.append(costs.ProgramNode(call, _identities(read), _identities(given)))
    return costs.Program(tuple(rows), frozenset(_identities(program.leaving)))


def _cost_class(target: Any) -> str:
    name = registry.qualified_name(target)
    return cost_class_of(name) if is_listed(name) else CLASS_OF_UNLISTED


def _identities(values: Sequence[Value]) -> tuple[int, ...]:
    # They live as long as the program that is being described.
    return tuple(map(id, values))


def _tensor_shapes(values: Sequence[Value]) -> tuple[costs.TensorShape, ...]:
    return tuple(costs.TensorShape(v.shape, nodes.dtype_name(v.dtype)) for v in values)
