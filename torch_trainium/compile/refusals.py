"""Operators of a graph that are in no program, and why."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import Node

from torch_trainium.compile import fallbacks, nodes
from torch_trainium.compile.nodes import Place


@dataclass(frozen=True)
class Refusal:
    """An operator that is in no program.

    Attributes:
        node: the operator.
        why: the reason, as part of a sentence.
        is_cpu_fallback: whether it is one in eager mode, too; else the device runs it by itself.

    """

    node: Node
    why: str
    is_cpu_fallback: bool


def refusal(node: Node) -> Refusal | None:
    """Why a node is in no program, whatever its arguments are; None where it may be in one."""
    if why := fallbacks.reason(node):
        return Refusal(node, why, is_cpu_fallback=True)
    if why := _cut(node):
        return Refusal(node, why, is_cpu_fallback=False)
    return None


def refusal_of_lowering(node: Node, words: str) -> Refusal:
    """The same for a node whose lowering does not take its arguments, and says so."""
    return Refusal(node, words, is_cpu_fallback=bool(fallbacks.reason(node, words)))


def refusal_in_body(node: Node) -> str:
    """Why the body of a higher-order operator cannot be in a program with this node; "" if it can.

    Nothing runs by itself in there.
    """
    found = refusal(node)
    if found is not None:
        return f"{nodes.operator_name(node)} in its body: {found.why}"
    if nodes.place_of(node) is not Place.EAGER or nodes.is_host_number(node):
        return ""
    return f"{nodes.operator_name(node)} in its body runs on the host"


def _cut(node: Node) -> str:
    """Why an operator on device tensors runs by itself; "" where it does not, or is a transfer."""
    target = node.target
    if not isinstance(target, torch._ops.OperatorBase):
        return ""
    if not any(map(nodes.is_on_device, nodes.tensors_of(node))) or nodes.is_transfer(node):
        return ""
    if nodes.place_of(node) is Place.PROGRAM:
        return ""
    if isinstance(target, torch._ops.OpOverload) and nodes.has_lowering(target):
        return ""
    return (
        "its shape depends on data" if node.meta.get("unbacked_bindings") else "it has no lowering"
    )
