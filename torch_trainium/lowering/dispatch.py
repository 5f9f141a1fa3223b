"""Finds what an operator becomes: its lowering, its functional form, or its decomposition."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from torch_trainium.errors import LoweringError
from torch_trainium.lowering import registry
from torch_trainium.lowering.registry import Lowering

if TYPE_CHECKING:
    from torch_trainium.lowering.builder import Builder


def lower_call(x: Builder, overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The values that a functional operator gives for these."""
    lowering = registry.find(overload)
    if lowering is not None:
        return _apply(x, lowering, overload, args, kwargs)
    from torch_trainium.lowering import decompose

    return decompose.lower_by_decomposition(x, overload, args, kwargs)


def bind(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by the schema's names, defaults filled in."""
    bound = {}
    for position, argument in enumerate(overload._schema.arguments):
        if position < len(args):
            bound[argument.name] = args[position]
        elif argument.name in kwargs:
            bound[argument.name] = kwargs[argument.name]
        elif argument.has_default_value():
            bound[argument.name] = argument.default_value
        elif isinstance(argument.type, torch.OptionalType):
            bound[argument.name] = None
        else:
            raise LoweringError(f"{registry.qualified_name(overload)} needs '{argument.name}'")
    return bound


def _apply(
    x: Builder,
    lowering: Lowering,
    overload: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    bound = bind(overload, args, kwargs)
    room = _positional_parameters(lowering)
    positional: list[Any] = []
    by_keyword: dict[str, Any] = {}
    for argument in overload._schema.arguments:
        value = bound[argument.name]
        if argument.name in lowering.keywords:
            by_keyword[argument.name] = value
        elif not argument.kwarg_only and len(positional) < room:
            positional.append(value)
        elif argument.name in _ALLOCATION:
            continue
        elif value is not None and not (
            argument.has_default_value() and value == argument.default_value
        ):
            raise LoweringError(
                f"{lowering.name}: {argument.name}={value!r} cannot be expressed as a program; "
                f"leave '{argument.name}' at its default"
            )
    return lowering.function(x, *positional, **by_keyword)


def is_composite(overload: Any) -> bool:
    """Whether the device never meets an operator: PyTorch makes it of others before."""
    name = registry.qualified_name(overload)
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    if has_kernel(name, "PrivateUse1") or has_kernel(name, "CPU"):
        return False
    return any(has_kernel(name, key) for key in _COMPOSITE_KEYS)


_COMPOSITE_KEYS = (
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)


# What a factory takes beside what its `out=` form does, which has a tensor that says it.
TENSOR_OPTIONS = ("dtype", "layout", "device", "pin_memory")

# Arguments that say where and how a result lies, which a program's values do not have.
_ALLOCATION = frozenset(("device", "pin_memory", "layout", "memory_format", "non_blocking", "copy"))


@cache
def _positional_parameters(lowering: Lowering) -> int:
    import inspect

    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(lowering.function).parameters.values()
    return sum(p.kind in kinds for p in parameters) - 1


# Operators that write to arguments and whose functional form goes by another name.
_FUNCTIONAL = {
    "prims::copy_to": ("aten", "copy", "default"),
    "aten::polygamma_": ("aten", "polygamma", "default"),
    "aten::_cummax_helper": ("aten", "cummax", "default"),
    "aten::_cummin_helper": ("aten", "cummin", "default"),
    "aten::__ilshift__.Scalar": ("aten", "__lshift__", "Scalar"),
    "aten::__ilshift__.Tensor": ("aten", "__lshift__", "Tensor"),
    "aten::__irshift__.Scalar": ("aten", "__rshift__", "Scalar"),
    "aten::__irshift__.Tensor": ("aten", "__rshift__", "Tensor"),
    "aten::native_batch_norm": ("aten", "_native_batch_norm_legit_functional", "default"),
    "aten::native_batch_norm.out": ("aten", "_native_batch_norm_legit_functional", "default"),
    # Itself: its lowering gives the running statistics after the results.
    "aten::batch_norm_gather_stats_with_counts": (
        "aten",
        "batch_norm_gather_stats_with_counts",
        "default",
    ),
}
# What an operator writes although its schema does not say so.
_UNDECLARED_WRITES = {
    "aten::native_batch_norm": ("running_mean", "running_var"),
    "aten::native_batch_norm.out": ("running_mean", "running_var"),
    "aten::batch_norm_gather_stats_with_counts": ("running_mean", "running_var"),
}


@cache
def functional_form(overload: Any) -> Any | None:
    """The overload that computes the same and writes nothing: `add.Tensor` of `add_.Tensor`.

    Its results are those of the overload that are new, then what the written arguments become.
    None where the overload is functional itself; raises LoweringError where there is none.
    """
    schema = overload._schema
    if not written_arguments(overload):
        return None
    name = registry.qualified_name(overload)
    if name in _FUNCTIONAL:
        namespace, packet_name, other = _FUNCTIONAL[name]
        return getattr(getattr(getattr(torch.ops, namespace), packet_name), other)
    kept = [a for a in schema.arguments if not a.is_out]
    wanted = [(a.name, str(a.type)) for a in kept]
    base = schema.name.partition("::")[2]
    stem = base.removesuffix("_") if len(kept) == len(schema.arguments) else base
    for candidate_name in (stem, f"{base}_functional", f"{stem}_functional"):
        packet = getattr(getattr(torch.ops, overload.namespace), candidate_name, None)
        for other in packet.overloads() if packet is not None else ():
            candidate = getattr(packet, other)
            given = [
                (a.name, str(a.type))
                for a in candidate._schema.arguments
                if a.name not in TENSOR_OPTIONS or (a.name, str(a.type)) in wanted
            ]
            if given == wanted and not candidate._schema.is_mutable:
                return candidate
    raise LoweringError(f"{name} has no functional form")


@cache
def written_arguments(overload: Any) -> tuple[str, ...]:
    """The arguments that an operator writes to."""
    declared = [
        a for a in overload._schema.arguments if a.alias_info is not None and a.alias_info.is_write
    ]
    declared.sort(key=lambda a: not a.is_out)  # what an operator returns comes first
    return (
        *(a.name for a in declared),
        *_UNDECLARED_WRITES.get(registry.qualified_name(overload), ()),
    )


@cache
def origin(overload: Any) -> str:
    """Where the program of a functional overload comes from: a family, or "" for none."""
    lowering = registry.find(overload)
    if lowering is not None:
        return lowering.family
    from torch_trainium.lowering import decompose

    return "decomposition" if decompose.decomposition(overload) is not None else ""
