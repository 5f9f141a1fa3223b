"""Composite operators: PyTorch's decompositions, run on tensors that stand for values."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from torch_trainium.errors import LoweringError
from torch_trainium.lowering import registry
from torch_trainium.lowering.values import Scalar, Value

if TYPE_CHECKING:
    from torch_trainium.lowering.builder import Builder

# How deep decompositions may nest before one is taken to contain itself.
MAX_DEPTH = 32
_depth = threading.local()


class StandIn(torch.Tensor):
    """A tensor without elements, over a value of the program."""

    value: Value

    @staticmethod
    def __new__(cls, value: Value) -> StandIn:
        """A tensor with the value's dtype and shape, on the CPU for who asks."""
        made: StandIn = torch.Tensor._make_wrapper_subclass(
            cls, value.shape, dtype=value.dtype, device=torch.device("cpu")
        )
        made.value = value
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Never reached: a mode takes every operator."""
        raise LoweringError(f"{func} outside of the decomposition that made its operand")


class _Lowering(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lowers what a decomposition calls, factories too."""

    def __init__(self, x: Builder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.x = x

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from torch_trainium.lowering import dispatch

        kwargs = kwargs or {}
        functional = dispatch.functional_form(func)
        values, named = tree_map(self._as_value, (tuple(args), kwargs))
        if functional is None:
            return tree_map(_as_stand_in, dispatch.lower_call(self.x, func, values, named))
        written = [a.name for a in func._schema.arguments if a.alias_info and a.alias_info.is_write]
        targets = [dispatch.bind(func, args, kwargs)[name] for name in written]
        for name in written:
            if name not in {a.name for a in functional._schema.arguments}:
                named.pop(name, None)
        results = dispatch.lower_call(self.x, functional, values, named)
        results = [results] if isinstance(results, Value) else list(results)
        for target, result in zip(targets, results, strict=False):
            shaped = self.x.broadcast(result, target.value.shape)
            target.value = shaped.to(target.value.dtype)
        return targets[0] if len(targets) == 1 else tuple(targets)

    def _as_value(self, argument: Any) -> Any:
        if isinstance(argument, StandIn):
            return argument.value
        if isinstance(argument, torch.Tensor):
            return _constant(self.x, argument)
        return argument


def lower_by_decomposition(
    x: Builder, overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The values of a composite operator."""
    name = registry.qualified_name(overload)
    decomposed = decomposition(overload)
    if decomposed is None:
        raise LoweringError(f"{name} has no lowering and no decomposition")
    depth = getattr(_depth, "value", 0)
    if depth > MAX_DEPTH:
        raise LoweringError(f"{name} has only a decomposition that contains itself")

    def stand_in(argument: Any) -> Any:
        if isinstance(argument, Scalar):
            argument = x.number(argument, argument.dtype or torch.get_default_dtype())
        return _as_stand_in(argument)

    _depth.value = depth + 1
    try:
        with torch.no_grad(), _Lowering(x):
            operands, named = tree_map(stand_in, (args, kwargs))
            results = decomposed(*operands, **named)
    finally:
        _depth.value = depth
    if results is NotImplemented:
        raise LoweringError(f"{name} does not decompose for these arguments")
    return tree_map(_Lowering(x)._as_value, results)


@cache
def decomposition(overload: Any) -> Callable[..., Any] | None:
    """PyTorch's decomposition of an overload, the core ATen table's first."""
    from torch._decomp import core_aten_decompositions, decomposition_table

    if overload.namespace != "aten":
        return None

    found = core_aten_decompositions().get(overload) or decomposition_table.get(overload)
    if found is not None:
        return found
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    if overload.has_kernel_for_dispatch_key(key):
        return lambda *args, **kwargs: overload.decompose(*args, **kwargs)
    key = torch._C.DispatchKey.CompositeExplicitAutograd
    if overload.has_kernel_for_dispatch_key(key):
        return lambda *args, **kwargs: overload._op_dk(key, *args, **kwargs)
    return None


def _as_stand_in(value: Any) -> Any:
    return StandIn(value) if isinstance(value, Value) else value


def _constant(x: Builder, tensor: torch.Tensor) -> Value:
    """A tensor with elements that a decomposition made on the way."""
    if tensor.dim() == 0:
        return x.constant(tensor.item(), tensor.dtype)
    raise LoweringError("a decomposition uses a tensor that is no argument")
