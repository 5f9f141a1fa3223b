"""What a piece of a graph is given: brought to the device, described, and told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from torch_trainium.compile import nodes
from torch_trainium.compile.lower import Constant, Input, NumberTensor
from torch_trainium.compile.partition import Piece
from torch_trainium.engines.engine import ALIGNMENT_BYTES
from torch_trainium.errors import LoweringError
from torch_trainium.lowering.windows import Window


def on_device(device: int, given: Sequence[Any]) -> list[Any]:
    """Inputs as a program takes them: on its device, and with elements that memory holds.

    What the host has computed inside of the graph is copied, but for zero-dim tensors, which are
    numbers; conjugates and the like are written out.
    """
    found = list(given)
    for i, value in enumerate(given):
        if not isinstance(value, torch.Tensor):
            continue
        if value.device.type == "cpu" and value.dim() > 0:
            found[i] = value.to(torch.device(nodes.DEVICE_TYPE, device))
        elif value.is_conj() or value.is_neg() or value._is_zerotensor():
            found[i] = value.resolve_conj().resolve_neg().clone()
    return found


def describe(value: Any) -> Input:
    """What a program depends on of an input.

    Raises:
        LoweringError: a tensor whose elements do not lie at multiples of their size.

    """
    if not isinstance(value, torch.Tensor):
        return Constant(value)
    if value.device.type == "cpu":
        return NumberTensor(value.dtype)
    offset, rest = divmod(value.data_ptr() % ALIGNMENT_BYTES, value.itemsize)
    if rest and value.numel():
        raise LoweringError("a tensor starts between two elements of its dtype; clone() it")
    return Window(value.dtype, tuple(value.shape), value.stride(), offset)


def what_varies(piece: Piece, older: Sequence[Input], newer: Sequence[Input]) -> str:
    """The first difference between the inputs of two programs, for a reader."""
    for node, old, new in zip(piece.inputs, older, newer, strict=True):
        if new == old:
            continue
        what = nodes.source_name(node)
        if not (isinstance(old, Window) and isinstance(new, Window)):
            return what
        if len(old.shape) != len(new.shape):
            return f"the rank of {what}"
        for dim, (before, after) in enumerate(zip(old.shape, new.shape, strict=True)):
            if before != after:
                return f"dimension {dim} of {what} ({before}, then {after})"
        return f"the layout of {what}"
    return "nothing that is known"
