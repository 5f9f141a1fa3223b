"""Symbolic sizes of a graph, and what they are in one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.fx import Node


class Sizes:
    """The symbols that the values of some nodes determine."""

    def __init__(self, bound: Iterable[tuple[Node, Any]]) -> None:
        self._values: dict[Any, Any] = {}
        self._places: dict[Any, tuple[Node, int, int]] = {}
        for node, value in bound:
            self._bind(node.meta.get("val"), value)
            self._note_places(node, value)

    def varying(self) -> Iterator[tuple[Node, int, int]]:
        """Of each symbol a node, its dimension and the length that the symbol is."""
        yield from self._places.values()

    def strides(self, node: Node) -> tuple[int, ...] | None:
        """The strides that a node's tensor is to have; None where they depend on other symbols."""
        fake = node.meta.get("val")
        if not isinstance(fake, torch.Tensor):
            return None
        strides = [self._number(stride) for stride in fake.stride()]
        known = tuple(stride for stride in strides if stride is not None)
        return known if len(known) == len(strides) else None

    def _bind(self, fake: Any, value: Any) -> None:
        if isinstance(fake, torch.Tensor) and isinstance(value, torch.Tensor):
            for sizes, actual in ((fake.shape, value.shape), (fake.stride(), value.stride())):
                for size, length in zip(sizes, actual, strict=False):
                    self._bind(size, length)
        elif isinstance(fake, torch.SymInt) and isinstance(value, int):
            expression = fake.node.expr
            if expression.is_Symbol:
                self._values.setdefault(expression, value)

    def _note_places(self, node: Node, value: Any) -> None:
        fake = node.meta.get("val")
        if not isinstance(fake, torch.Tensor) or not isinstance(value, torch.Tensor):
            return
        for dim, size in enumerate(fake.shape):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                self._places.setdefault(size.node.expr, (node, dim, value.shape[dim]))

    def _number(self, size: int | torch.SymInt) -> int | None:
        if isinstance(size, int):
            return size
        known = size.node.expr.subs(self._values)
        return int(known) if known.is_number else None
