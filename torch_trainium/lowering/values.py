"""What a lowering computes with: arrays of the program, and numbers known only when it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch_trainium.lowering.builder import Builder

Number = bool | int | float | complex


@dataclass(frozen=True, eq=False)
class Value:
    """An array in the program, with PyTorch's dtype and shape.

    Operators take values of one dtype and numbers, and broadcast: `a * 2 + b`.

    Attributes:
        is_contiguous: whether the tensor that the program reads it from is. A few operators give
            other results for others: some of linear algebra factor the transpose.

    """

    builder: Builder
    ir: Any
    dtype: torch.dtype
    shape: tuple[int, ...]
    is_contiguous: bool = True

    @property
    def rank(self) -> int:
        """How many dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements."""
        elements = 1
        for length in self.shape:
            elements *= length
        return elements

    def to(self, dtype: torch.dtype) -> Value:
        """The same elements in another dtype, converted as PyTorch converts."""
        return self.builder.convert(self, dtype)

    def __add__(self, other: Value | Number) -> Value:
        return self.builder.add(self, other)

    def __sub__(self, other: Value | Number) -> Value:
        return self.builder.subtract(self, other)

    def __mul__(self, other: Value | Number) -> Value:
        return self.builder.multiply(self, other)

    def __truediv__(self, other: Value | Number) -> Value:
        return self.builder.divide(self, other)

    def __radd__(self, other: Number) -> Value:
        return self.builder.add(other, self)

    def __rsub__(self, other: Number) -> Value:
        return self.builder.subtract(other, self)

    def __rmul__(self, other: Number) -> Value:
        return self.builder.multiply(other, self)

    def __rtruediv__(self, other: Number) -> Value:
        return self.builder.divide(other, self)

    def __neg__(self) -> Value:
        return self.builder.negate(self)

    def __and__(self, other: Value) -> Value:
        return self.builder.and_(self, other)

    def __or__(self, other: Value) -> Value:
        return self.builder.or_(self, other)

    def __xor__(self, other: Value) -> Value:
        return self.builder.xor(self, other)

    def __invert__(self) -> Value:
        return self.builder.not_(self)

    def __lt__(self, other: Value | Number) -> Value:
        return self.builder.compare(self, "LT", other)

    def __le__(self, other: Value | Number) -> Value:
        return self.builder.compare(self, "LE", other)

    def __gt__(self, other: Value | Number) -> Value:
        return self.builder.compare(self, "GT", other)

    def __ge__(self, other: Value | Number) -> Value:
        return self.builder.compare(self, "GE", other)

    def eq(self, other: Value | Number) -> Value:
        """Elementwise equality; NaN equals nothing."""
        return self.builder.compare(self, "EQ", other)

    def ne(self, other: Value | Number) -> Value:
        """Elementwise inequality."""
        return self.builder.compare(self, "NE", other)


@dataclass(frozen=True, eq=False)
class Scalar:
    """A number that the program takes as an argument, so that its value compiles nothing anew.

    Attributes:
        index: which of the call's numbers.
        kind: bool, int, float or complex, as Python has it.
        dtype: of the zero-dim CPU tensor it came from; None for a plain number, which promotes
            like one.

    """

    index: int
    kind: type
    dtype: torch.dtype | None = None


Operand = Value | Scalar | Number
