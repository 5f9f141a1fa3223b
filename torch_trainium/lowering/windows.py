"""Strided tensors as part of a program: from the dense buffers it reads, to those it writes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from torch_trainium.engines.engine import Buffer
from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.values import Value


@dataclass(frozen=True)
class Window:
    """A tensor's elements inside a flat buffer that starts `offset` elements before the first."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def size(self) -> int:
        """How many elements."""
        elements = 1
        for length in self.shape:
            elements *= length
        return elements

    @property
    def span(self) -> int:
        """How many elements lie between the first and the last, both included, from the start."""
        reach = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        return self.offset + reach + 1 if self.size else 0

    @property
    def is_contiguous(self) -> bool:
        """As `Tensor.is_contiguous()`: row by row, wherever the first element lies."""
        dense = 1
        for length, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if length != 1 and stride != dense:
                return False
            dense *= length
        return True

    @property
    def order(self) -> list[int] | None:
        """Dimensions from the outermost to the innermost, if elements lie there without gaps."""
        if self.offset:
            return None
        order = sorted(range(len(self.shape)), key=lambda d: (self.shape[d] != 1, -self.strides[d]))
        dense = 1
        for d in reversed(order):
            if self.shape[d] != 1 and self.strides[d] != dense:
                return None
            dense *= self.shape[d]
        return order

    @property
    def buffer(self) -> Buffer:
        """The dense array that a program reads or writes for this tensor."""
        element = dtypes.element_type(self.dtype)
        order = self.order
        if order is None:
            return Buffer(element, (self.span,))
        return Buffer(element, tuple(self.shape[d] for d in order))


def read(x: Builder, window: Window) -> tuple[Value, Value]:
    """The buffer, for which the program gets an argument, and the tensor in it."""
    if window.size == 0:
        empty = x.constant(0, window.dtype, window.shape)
        return empty, empty
    buffer = x.argument(window.dtype, window.buffer.shape)
    order = window.order
    if order is not None:
        value = x.transpose(buffer, _inverse(order))
    else:
        value = _gather(x, buffer, window)
    return buffer, replace(value, is_contiguous=window.is_contiguous)


def write(x: Builder, value: Value, window: Window, old: Value | None) -> Value:
    """The buffer with the value in it; gaps keep what they hold in `old`, or are zero if None."""
    order = window.order
    if order is not None:
        return x.transpose(value, order)
    if old is None:
        old = x.constant(0, window.dtype, window.buffer.shape)
    places = x.reshape(positions(x, window), [window.size])
    return x.put_elements(old, [places], x.reshape(value, [window.size]))


def _gather(x: Builder, buffer: Value, window: Window) -> Value:
    """A window with gaps: a slice where only the innermost dimension skips, else a gather."""
    dims = [d for d, s in enumerate(window.strides) if s != 0 and window.shape[d] != 1]
    if not dims:
        element = x.slice(buffer, [window.offset], [window.offset + 1])
        return x.broadcast(x.reshape(element, [1] * len(window.shape)), window.shape)
    return x.take(buffer, positions(x, window))


def positions(x: Builder, window: Window) -> Value:
    """Where each element lies in the buffer."""
    index = torch.int32 if window.span < 2**31 else torch.int64
    places = x.constant(window.offset, index, window.shape)
    for d, stride in enumerate(window.strides):
        if stride != 0 and window.shape[d] != 1:
            places = places + x.iota(index, window.shape, d) * stride
    return places


def _inverse(order: list[int]) -> list[int]:
    inverse = [0] * len(order)
    for position, d in enumerate(order):
        inverse[d] = position
    return inverse
