"""Builder methods that move elements without changing them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torch_trainium.errors import LoweringError
from torch_trainium.lowering.elementwise import Elementwise
from torch_trainium.lowering.values import Number, Value


class Shapes(Elementwise):
    """Dimensions may be negative, as in PyTorch."""

    def reshape(self, a: Value, shape: Sequence[int]) -> Value:
        """As `Tensor.reshape`; one length may be -1."""
        shape = list(shape)
        if -1 in shape:
            known = 1
            for length in shape:
                known *= length if length != -1 else 1
            shape[shape.index(-1)] = a.size // known if known else 0
        if tuple(shape) == a.shape:
            return a
        return self.emit(self.hlo.ReshapeOp(self.type_of(a.dtype, shape), a.ir), a.dtype)

    def transpose(self, a: Value, permutation: Sequence[int]) -> Value:
        """As `Tensor.permute`."""
        order = [self.dimension(a, d) for d in permutation]
        if order == list(range(a.rank)):
            return a
        return self.emit(self.hlo.TransposeOp(a.ir, order), a.dtype)

    def squeeze(self, a: Value, dims: Sequence[int]) -> Value:
        """Without the dimensions `dims`, which have length 1."""
        gone = {self.dimension(a, d) for d in dims}
        return self.reshape(a, [n for d, n in enumerate(a.shape) if d not in gone])

    def unsqueeze(self, a: Value, dim: int) -> Value:
        """With one more dimension of length 1 at `dim`."""
        dim = dim + a.rank + 1 if dim < 0 else dim
        return self.reshape(a, [*a.shape[:dim], 1, *a.shape[dim:]])

    def slice(
        self,
        a: Value,
        starts: Sequence[int],
        limits: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> Value:
        """Elements start, start + stride, ... below limit, in every dimension."""
        strides = strides or [1] * a.rank
        if list(starts) == [0] * a.rank and tuple(limits) == a.shape and set(strides) <= {1}:
            return a
        return self.emit(self.hlo.SliceOp(a.ir, list(starts), list(limits), list(strides)), a.dtype)

    def slice_in_dim(self, a: Value, dim: int, start: int, limit: int, stride: int = 1) -> Value:
        """The same in one dimension; `start` and `limit` lie within its length."""
        dim = self.dimension(a, dim)
        starts, limits, strides = [0] * a.rank, list(a.shape), [1] * a.rank
        starts[dim], limits[dim], strides[dim] = start, limit, stride
        return self.slice(a, starts, limits, strides)

    def concatenate(self, values: Sequence[Value], dim: int) -> Value:
        """One after another along a dimension."""
        dim = self.dimension(values[0], dim)
        if len(values) == 1:
            return values[0]
        return self.emit(self.hlo.ConcatenateOp([v.ir for v in values], dim), values[0].dtype)

    def stack(self, values: Sequence[Value], dim: int = 0) -> Value:
        """One after another along a new dimension."""
        return self.concatenate([self.unsqueeze(v, dim) for v in values], dim)

    def pad(
        self,
        a: Value,
        number: Value | Number,
        low: Sequence[int],
        high: Sequence[int],
        interior: Sequence[int] | None = None,
    ) -> Value:
        """With `number` before, after and between the elements; negative pads crop."""
        value = number if isinstance(number, Value) else self.constant(number, a.dtype)
        interior = list(interior or [0] * a.rank)
        return self.emit(self.hlo.PadOp(a.ir, value.ir, list(low), list(high), interior), a.dtype)

    def reverse(self, a: Value, dims: Sequence[int]) -> Value:
        """Backwards along some dimensions."""
        return self.emit(self.hlo.ReverseOp(a.ir, [self.dimension(a, d) for d in dims]), a.dtype)

    def iota(self, dtype: torch.dtype, shape: Sequence[int], dim: int = 0) -> Value:
        """0, 1, 2... along one dimension."""
        if dtype is torch.bool:
            return self.convert(self.iota(torch.int32, shape, dim), dtype)
        dimension = self.ir.IntegerAttr.get(self.ir.IntegerType.get_signless(64), dim)
        return self.emit(self.hlo.IotaOp(self.type_of(dtype, shape), dimension), dtype)

    def dimension(self, a: Value, dim: int) -> int:
        """A dimension counted from the front."""
        if not -max(a.rank, 1) <= dim < max(a.rank, 1):
            raise LoweringError(f"dimension {dim} does not exist in shape {a.shape}")
        return dim + a.rank if dim < 0 and a.rank else max(dim, 0)

    def dimensions(self, a: Value, dims: Sequence[int] | int | None) -> list[int]:
        """The same for several, in ascending order; none, or an empty list, means all."""
        if dims is None or dims == []:
            return list(range(a.rank))
        if isinstance(dims, int):
            dims = [dims]
        return sorted({self.dimension(a, d) for d in dims}) if a.rank else []
