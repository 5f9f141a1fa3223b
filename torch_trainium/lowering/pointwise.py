"""One decorator for operators that compute each element from elements at the same place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Literal

import torch

from torch_trainium.lowering import dtypes, promotion
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.elementwise import broadcast_shape
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Scalar, Value

Result = Literal["promoted", "float", "bool", "real"]
Function = Callable[..., Value]


def pointwise(
    *overloads: Any,
    result: Result = "promoted",
    static: Iterable[str] = (),
    held: Iterable[str] = (),
    rounded: bool = True,
) -> Callable[[Function], Function]:
    """Register a function of values in one dtype, the one PyTorch computes in.

    Positional parameters take part in type promotion; parameters after `*` do not, and reach the
    function in the same dtype, which must hold them: RuntimeError otherwise. Half-width floats are
    computed in float32 and rounded at the end.

    Args:
        overloads: as `lower`.
        result: the dtype of the result: the promoted one; that or the default float where it is
            integral; bool; or that of the real part.
        static: as `lower`.
        held: number arguments that the result's dtype must hold.
        rounded: whether numbers are rounded to the promoted dtype before, as PyTorch's kernels do
            but for those of sums, products and quotients.

    """
    static, held = frozenset(static), frozenset(held)

    def register(function: Function) -> Function:
        names = list(inspect.signature(function).parameters)[1:]

        @lower(*overloads, static=static)
        @wraps(function)
        def lowered(x: Builder, *operands: Any, **others: Any) -> Value:
            given = dict(zip(names, operands, strict=False))
            numbers = [v for name, v in given.items() if name not in static and v is not None]
            promoted = promotion.result_dtype(numbers)
            if result == "float":
                promoted = promotion.floating(promoted)
            compute = dtypes.compute_dtype(promoted)

            def as_value(name: str, operand: Any) -> Any:
                if name in static or not is_operand(operand):
                    return operand
                if name in held:
                    return x.held_number(operand, promoted, compute)
                if name in others:
                    return x.held_number(operand, compute, compute)
                as_given = not rounded or isinstance(operand, Value)
                return x.number(operand, compute if as_given else promoted).to(compute)

            as_values = {name: as_value(name, v) for name, v in {**given, **others}.items()}
            positional = [as_values.pop(name) for name in names[: len(operands)]]
            computed = function(x, *positional, **as_values)
            shape = broadcast_shape(*(v.shape for v in numbers if isinstance(v, Value)))
            if result == "bool":
                final = torch.bool
            else:
                final = dtypes.real_dtype(promoted) if result == "real" else promoted
            return x.broadcast(computed.to(final), shape)

        return lowered

    return register


def is_operand(argument: Any) -> bool:
    """Whether an argument is an array or a number."""
    return isinstance(argument, (Value, Scalar, bool, int, float, complex))
