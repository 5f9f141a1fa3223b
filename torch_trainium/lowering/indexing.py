"""Builder methods that address elements by number, and put them in order."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torch_trainium.lowering.contractions import Contractions
from torch_trainium.lowering.elementwise import broadcast_shape
from torch_trainium.lowering.reductions import Combine
from torch_trainium.lowering.values import Value


class Indexing(Contractions):
    """Gather, scatter and top-k. XLA clamps indices: what PyTorch refuses has to be checked."""

    def checked_index(self, index: Value, length: int, message: str | None = None) -> Value:
        """Indices into `length` elements, negative ones counted from the end.

        The program raises IndexError where one lies outside.
        """
        failed = (index < -length) | (index >= length)
        self.check(
            failed,
            IndexError,
            message or f"index out of range: it must lie in [-{length}, {length})",
        )
        return self.select(index < 0, index + length, index)

    def gather(
        self,
        a: Value,
        starts: Value,
        *,
        slice_sizes: Sequence[int],
        offset_dims: Sequence[int],
        collapsed_dims: Sequence[int],
        start_index_map: Sequence[int],
        batch_dims: Sequence[int] = (),
        start_batch_dims: Sequence[int] = (),
        sorted_: bool = False,
    ) -> Value:
        """StableHLO's gather; the last dimension of `starts` holds the index vectors."""
        numbers = self.hlo.GatherDimensionNumbers.get(
            offset_dims=list(offset_dims),
            collapsed_slice_dims=list(collapsed_dims),
            operand_batching_dims=list(batch_dims),
            start_indices_batching_dims=list(start_batch_dims),
            start_index_map=list(start_index_map),
            index_vector_dim=starts.rank - 1,
        )
        operation = self.hlo.GatherOp(
            a.ir, starts.ir, numbers, list(slice_sizes), indices_are_sorted=sorted_
        )
        return self.emit(operation, a.dtype)

    def take(self, a: Value, index: Value, dim: int = 0) -> Value:
        """Slices of `a` along a dimension, at indices within its length.

        The dimensions of `index` take the place of `dim`.
        """
        dim = self.dimension(a, dim)
        if not a.size or not index.size:
            return self.constant(0, a.dtype, [*a.shape[:dim], *index.shape, *a.shape[dim + 1 :]])
        sizes = [1 if d == dim else n for d, n in enumerate(a.shape)]
        inserted = range(dim, dim + index.rank)
        return self.gather(
            a,
            self.unsqueeze(index, index.rank),
            slice_sizes=sizes,
            offset_dims=[d for d in range(a.rank - 1 + index.rank) if d not in inserted],
            collapsed_dims=[dim],
            start_index_map=[dim],
        )

    def take_elements(self, a: Value, indices: Sequence[Value]) -> Value:
        """Elements of `a`, one index for each of its dimensions, all of one shape."""
        if not a.size or not indices:
            shape = broadcast_shape(*(i.shape for i in indices)) if indices else ()
            return self.constant(0, a.dtype, shape) if indices else a
        indices = self.broadcast_together(*indices)
        vectors = self.stack(indices, dim=indices[0].rank)
        every = list(range(a.rank))
        return self.gather(
            a,
            vectors,
            slice_sizes=[1] * a.rank,
            offset_dims=[],
            collapsed_dims=every,
            start_index_map=every,
        )

    def scatter(
        self,
        a: Value,
        positions: Value,
        updates: Value,
        combine: Combine,
        *,
        window_dims: Sequence[int],
        inserted_dims: Sequence[int],
        index_map: Sequence[int],
        sorted_: bool = False,
        unique: bool = False,
    ) -> Value:
        """StableHLO's scatter; the last dimension of `positions` holds the index vectors.

        Updates outside are left out. `combine` gets the element there and the update.
        """
        numbers = self.hlo.ScatterDimensionNumbers.get(
            update_window_dims=list(window_dims),
            inserted_window_dims=list(inserted_dims),
            input_batching_dims=[],
            scatter_indices_batching_dims=[],
            scattered_dims_to_operand_dims=list(index_map),
            index_vector_dim=positions.rank - 1,
        )
        operation = self.hlo.ScatterOp(
            [self.type_of(a.dtype, a.shape)],
            [a.ir],
            positions.ir,
            [updates.ir],
            numbers,
            indices_are_sorted=sorted_,
            unique_indices=unique,
        )
        self.body(operation.regions[0], [a.dtype] * 2, combine)
        return self.value(operation.results[0], a.dtype)

    def put_slices(
        self, a: Value, index: Value, updates: Value, dim: int, combine: Combine | None = None
    ) -> Value:
        """`a` with slices along a dimension replaced or combined, at the positions in `index`.

        `updates` has the dimensions of `index` in the place of `dim`, as the result of `take`.
        """
        if not a.size or not updates.size:
            return a
        placed = range(dim, dim + index.rank)
        return self.scatter(
            a,
            self.unsqueeze(index, index.rank),
            updates,
            combine or (lambda old, new: new),
            window_dims=[d for d in range(updates.rank) if d not in placed],
            inserted_dims=[dim],
            index_map=[dim],
        )

    def put_elements(
        self,
        a: Value,
        indices: Sequence[Value],
        updates: Value,
        combine: Combine | None = None,
        *,
        unique: bool = False,
    ) -> Value:
        """`a` with elements replaced or combined: an index for each dimension, all of one shape."""
        if not a.size or not updates.size:
            return a
        vectors = self.stack(self.broadcast_together(*indices), dim=indices[0].rank)
        every = list(range(a.rank))
        return self.scatter(
            a,
            vectors,
            updates,
            combine or (lambda old, new: new),
            window_dims=[],
            inserted_dims=every,
            index_map=every,
            unique=unique,
        )

    def dynamic_slice(self, a: Value, starts: Sequence[Value], sizes: Sequence[int]) -> Value:
        """A window whose start the program computes, within the array."""
        operation = self.hlo.DynamicSliceOp(a.ir, [s.ir for s in starts], list(sizes))
        return self.emit(operation, a.dtype)

    def dynamic_update_slice(self, a: Value, update: Value, starts: Sequence[Value]) -> Value:
        """`a` with a window replaced whose start the program computes."""
        operation = self.hlo.DynamicUpdateSliceOp(a.ir, update.ir, [s.ir for s in starts])
        return self.emit(operation, a.dtype)

    def top_k(self, a: Value, k: int) -> tuple[Value, Value]:
        """The k largest elements along the last dimension, and their positions as int32.

        They descend; of equals the first comes first. Zeros of two signs are not equal, and NaN
        counts as beyond the infinity of its sign.
        """
        operation = self.chlo.TopKOp(a.ir, k)
        values, positions = operation.results
        return self.value(values, a.dtype), self.value(positions, torch.int32)

    def while_(
        self,
        state: Sequence[Value],
        condition: Combine,
        step: Combine,
    ) -> list[Value]:
        """Repeat `step` on the state while the condition holds."""
        types = [self.type_of(v.dtype, v.shape) for v in state]
        operation = self.hlo.WhileOp(types, [v.ir for v in state])
        for region, compute in zip(operation.regions, (condition, step), strict=True):
            block = region.blocks.append(*types)
            with self.ir.InsertionPoint(block):
                arguments = [
                    self.value(a, v.dtype) for a, v in zip(block.arguments, state, strict=True)
                ]
                results = compute(*arguments)
                results = [results] if isinstance(results, Value) else list(results)
                self.hlo.ReturnOp([result.ir for result in results])
        return [self.value(r, v.dtype) for r, v in zip(operation.results, state, strict=True)]
