"""Composite operators: PyTorch's decompositions, run on tensors that stand for values."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from torch_trainium.errors import LoweringError
from torch_trainium.lowering import registry
from torch_trainium.lowering.values import Scalar, Value

if TYPE_CHECKING:
    from torch_trainium.lowering.builder import Builder

# How deep decompositions may nest before one is taken to contain itself.
MAX_DEPTH = 32
_depth = threading.local()


class StandIn(torch.Tensor):
    """A tensor without elements, over a value of the program, or a view of another stand-in."""

    _value: Value | None
    _viewed: StandIn | None
    _replay: Callable[[Value], Value]

    @staticmethod
    def __new__(cls, value: Value) -> StandIn:
        """A tensor with the value's dtype and shape, on the CPU for who asks."""
        made: StandIn = torch.Tensor._make_wrapper_subclass(
            cls, value.shape, dtype=value.dtype, device=torch.device("cpu")
        )
        made._value = value
        made._viewed = None
        return made

    @classmethod
    def view_of(cls, base: StandIn, value: Value, view: Callable[[Value], Value]) -> StandIn:
        """The value that `view` gives for the base's, and goes on giving when that changes."""
        made = cls(value)
        made._value, made._viewed, made._replay = None, base, view
        return made

    @property
    def value(self) -> Value:
        """What the elements are at this point of the program."""
        if self._viewed is not None:
            return self._replay(self._viewed.value)
        assert self._value is not None
        return self._value

    def write(self, value: Value) -> None:
        """Let the elements be others from here on, and those of the base that it views."""
        if self._viewed is None:
            self._value = value
            return
        x, old = value.builder, self._viewed.value
        places = self._replay(x.reshape(x.iota(torch.int32, [old.size]), old.shape))
        flat = x.put_elements(
            x.reshape(old, [old.size]),
            [x.reshape(places, [places.size])],
            x.reshape(value, [value.size]),
        )
        self._viewed.write(x.reshape(flat, old.shape))

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
            results = dispatch.lower_call(self.x, func, values, named)
            if func.is_view and isinstance(args[0], StandIn) and isinstance(results, Value):
                return StandIn.view_of(
                    args[0],
                    results,
                    lambda base: dispatch.lower_call(self.x, func, (base, *values[1:]), named),
                )
            return tree_map(_as_stand_in, results)
        written = dispatch.written_arguments(func)
        bound = dispatch.bind(func, args, kwargs)
        taken = {a.name for a in functional._schema.arguments}
        named = {name: value for name, value in named.items() if name in taken}
        results = tree_leaves(dispatch.lower_call(self.x, functional, values, named))
        targets = [t for t in tree_leaves([bound[name] for name in written]) if t is not None]
        for target, result in zip(targets, results[len(results) - len(targets) :], strict=True):
            shaped = self.x.broadcast(result, tuple(target.shape))
            target.write(shaped.to(target.dtype))
        new = [_as_stand_in(result) for result in results[: len(results) - len(targets)]]
        returned = [*new, *(bound[name] for name in written)][: len(func._schema.returns)]
        return returned[0] if len(returned) == 1 else tuple(returned)

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
