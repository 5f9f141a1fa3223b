"""Which operators of a graph are CPU fallbacks: those that are in eager mode, by the same table."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from torch_trainium import _C
from torch_trainium.compile import nodes
from torch_trainium.lowering import registry, uses

KEYS = torch._C.DispatchKey
# What only graphs have, and the operator that eager mode runs in its place.
STANDS_FOR = {"aten::_native_batch_norm_legit_no_training": "aten::native_batch_norm"}


def reason(node: Node, refusal: str = "") -> str:
    """Why an operator of a graph runs on the CPU; "" where the device runs it.

    Args:
        node: any node of a graph.
        refusal: why it cannot be expressed as a program, if that has been tried.

    """
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.is_view or _has_own_kernel(target):
        return ""  # a view has no elements to compute
    operands, results = list(_operands(node)), list(nodes.tensors_of(node))
    if not any(map(nodes.is_on_device, (*operands, *results))):
        return ""
    name = registry.qualified_name(target)
    name = STANDS_FOR.get(name, name)
    tensors = [tensor.dtype for tensor in operands if nodes.is_on_device(tensor)]
    named = [leaf for leaf in _arguments(node) if isinstance(leaf, torch.dtype)]
    made = [tensor.dtype for tensor in results if nodes.is_on_device(tensor)]
    if target.namespace == "aten" and not _has_kernel(target, KEYS.PrivateUse1):
        # Eager mode makes it of others, which can miss a dtype and nothing else.
        return _C.fallbacks.reason(name, [], [*tensors, *named, *made])
    # Results come last: eager mode has them when the operator has run.
    use = uses.use_of(name, _named_arguments(node, target))
    why = _C.fallbacks.reason(name, tensors, named, use) or _C.fallbacks.reason(name, tensors, made)
    return why or refusal or nodes.dtype_refusal(node)


def _has_own_kernel(target: torch._ops.OpOverload) -> bool:
    """Whether an operator that is not PyTorch's is made of others, or is the user's for the device.

    These classify themselves.
    """
    return target.namespace != "aten" and _has_kernel(
        target,
        KEYS.PrivateUse1,
        KEYS.CompositeExplicitAutograd,
        KEYS.CompositeExplicitAutogradNonFunctional,
        KEYS.CompositeImplicitAutograd,
    )


def _has_kernel(target: torch._ops.OpOverload, *keys: torch._C.DispatchKey) -> bool:
    return any(target.has_kernel_for_dispatch_key(key) for key in keys)


def _operands(node: Node) -> Iterator[torch.Tensor]:
    for leaf in _arguments(node):
        if isinstance(leaf, Node):
            yield from nodes.tensors_of(leaf)


def _arguments(node: Node) -> list[object]:
    return tree_leaves((node.args, node.kwargs))


def _named_arguments(node: Node, target: torch._ops.OpOverload) -> dict[str, object]:
    """By the schema's names, defaults filled in."""
    schema = target._schema.arguments
    given = dict(zip((argument.name for argument in schema), node.args, strict=False))
    return {a.name: a.default_value for a in schema if a.has_default_value()} | given | node.kwargs
