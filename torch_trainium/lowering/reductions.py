"""Builder methods that combine elements along dimensions, or in windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.shapes import Shapes
from torch_trainium.lowering.values import Number, Value

Combine = Callable[..., "Value | Sequence[Value]"]


class Reductions(Shapes):
    """`dims` of None or [] means all; `keepdim` leaves length 1 where a dimension was reduced."""

    def sum(self, a: Value, dims: Sequence[int] | None = None, keepdim: bool = False) -> Value:
        """Sum, in the dtype of the operand."""
        combine = self.hlo.OrOp if a.dtype is torch.bool else self.hlo.AddOp
        return self._reduce(combine, a, 0, dims, keepdim)

    def product(self, a: Value, dims: Sequence[int] | None = None, keepdim: bool = False) -> Value:
        """Product, in the dtype of the operand."""
        combine = self.hlo.AndOp if a.dtype is torch.bool else self.hlo.MulOp
        return self._reduce(combine, a, 1, dims, keepdim)

    def max(self, a: Value, dims: Sequence[int] | None = None, keepdim: bool = False) -> Value:
        """Largest element; NaN wins; of nothing the lowest number."""
        return self._reduce(self.hlo.MaxOp, a, lowest(a.dtype), dims, keepdim)

    def min(self, a: Value, dims: Sequence[int] | None = None, keepdim: bool = False) -> Value:
        """Smallest element; NaN wins; of nothing the highest number."""
        return self._reduce(self.hlo.MinOp, a, highest(a.dtype), dims, keepdim)

    def any(self, a: Value, dims: Sequence[int] | None = None, keepdim: bool = False) -> Value:
        """Whether any element is not zero."""
        # The targets fold with maximum and minimum, not with logic.
        return self.max(a.to(torch.bool).to(torch.uint8), dims, keepdim).to(torch.bool)

    def all(self, a: Value, dims: Sequence[int] | None = None, keepdim: bool = False) -> Value:
        """Whether no element is zero."""
        return self.min(a.to(torch.bool).to(torch.uint8), dims, keepdim).to(torch.bool)

    def argmax(self, a: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
        """Largest element and its first position, as int64; NaN is the largest."""
        return self._extreme(a, self.max(a, [dim], keepdim=True), dim, keepdim)

    def argmin(self, a: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
        """Smallest element and its first position, as int64; NaN is the smallest."""
        return self._extreme(a, self.min(a, [dim], keepdim=True), dim, keepdim)

    def reduce(
        self,
        values: Sequence[Value],
        initial: Sequence[Value | Number],
        dims: Sequence[int],
        combine: Combine,
    ) -> list[Value]:
        """Fold several arrays of one shape together.

        `combine` gets as many zero-dim values of the fold so far as there are arrays, then as
        many elements, and returns the new fold.
        """
        starts = [
            start if isinstance(start, Value) else self.constant(start, v.dtype)
            for v, start in zip(values, initial, strict=True)
        ]
        gone = set(dims)
        types = [
            self.type_of(v.dtype, [n for d, n in enumerate(v.shape) if d not in gone])
            for v in values
        ]
        operation = self.hlo.ReduceOp(
            types, [v.ir for v in values], [s.ir for s in starts], sorted(gone)
        )
        self.body(operation.regions[0], [v.dtype for v in values] * 2, combine)
        return [self.value(r, v.dtype) for r, v in zip(operation.results, values, strict=True)]

    def reduce_window(
        self,
        values: Sequence[Value],
        initial: Sequence[Value | Number],
        combine: Combine,
        window: Sequence[int],
        strides: Sequence[int] | None = None,
        padding: Sequence[tuple[int, int]] | None = None,
    ) -> list[Value]:
        """The same over windows; every argument has an entry for every dimension."""
        rank = len(window)
        strides = list(strides or [1] * rank)
        padding = list(padding or [(0, 0)] * rank)
        lengths = []
        for d, n in enumerate(values[0].shape):
            room = n + sum(padding[d]) - window[d]
            lengths.append(room // strides[d] + 1 if room >= 0 else 0)
        starts = [
            start if isinstance(start, Value) else self.constant(start, v.dtype)
            for v, start in zip(values, initial, strict=True)
        ]
        pairs = self.ir.DenseIntElementsAttr.get(_int64_matrix(padding))
        operation = self.hlo.ReduceWindowOp(
            [self.type_of(v.dtype, lengths) for v in values],
            [v.ir for v in values],
            [s.ir for s in starts],
            list(window),
            window_strides=strides,
            padding=pairs,
        )
        self.body(operation.regions[0], [v.dtype for v in values] * 2, combine)
        return [self.value(r, v.dtype) for r, v in zip(operation.results, values, strict=True)]

    def body(self, region: Any, argument_dtypes: Sequence[torch.dtype], compute: Combine) -> None:
        """Fill the region of an operation: `compute` gets zero-dim values and returns some."""
        block = region.blocks.append(*(self.type_of(dtype, ()) for dtype in argument_dtypes))
        with self.ir.InsertionPoint(block):
            arguments = [
                self.value(argument, dtype)
                for argument, dtype in zip(block.arguments, argument_dtypes, strict=True)
            ]
            results = compute(*arguments)
            results = [results] if isinstance(results, Value) else list(results)
            self.hlo.ReturnOp([result.ir for result in results])

    def _reduce(
        self,
        combine: Any,
        a: Value,
        initial: Number,
        dims: Sequence[int] | None,
        keepdim: bool,
    ) -> Value:
        reduced = self.dimensions(a, dims)
        result = a
        if reduced:
            (result,) = self.reduce(
                [a], [initial], reduced, lambda x, y: self.emit(combine(x.ir, y.ir), x.dtype)
            )
        return self.reshape(result, kept_shape(a.shape, reduced)) if keepdim else result

    def _extreme(self, a: Value, best: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
        """The first place where the extreme is, without a fold of two arrays at once."""
        if a.rank == 0:
            return best, self.constant(0, torch.int64)
        dim = self.dimension(a, dim)
        found = a.eq(self.broadcast(best, a.shape))
        if a.dtype.is_floating_point:
            found = found | self.is_nan(a)  # the extreme is NaN where any is
        length = a.shape[dim]
        # Positions fit 32 bits, which every target has.
        positions = self.iota(torch.int32, a.shape, dim)
        at = self.min(self.select(found, positions, length), [dim], keepdim=True)
        shape = best.shape if keepdim else [n for d, n in enumerate(best.shape) if d != dim]
        return self.reshape(best, shape), self.reshape(at.to(torch.int64), shape)


def kept_shape(shape: Sequence[int], reduced: Sequence[int]) -> list[int]:
    """A shape with length 1 in its reduced dimensions."""
    return [1 if d in reduced else n for d, n in enumerate(shape)]


def lowest(dtype: torch.dtype) -> Number:
    """What no element of this dtype is below."""
    if dtype.is_floating_point:
        return -math.inf
    return False if dtype is torch.bool else torch.iinfo(dtype).min


def highest(dtype: torch.dtype) -> Number:
    """What no element of this dtype is above."""
    if dtype.is_floating_point:
        return math.inf
    return True if dtype is torch.bool else torch.iinfo(dtype).max


def reduction_dtype(dtype: torch.dtype) -> torch.dtype:
    """What a sum is accumulated in."""
    return torch.int64 if dtypes.is_integral(dtype) else dtypes.compute_dtype(dtype)


def _int64_matrix(rows: Sequence[Sequence[int]]) -> Any:
    import numpy

    return numpy.array(rows, dtype=numpy.int64).reshape(len(rows), 2)
