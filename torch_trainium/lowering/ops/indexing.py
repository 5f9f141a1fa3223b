"""Elements chosen by indices and masks, and writing to them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torch_trainium.errors import LoweringError
from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.elementwise import broadcast_shape
from torch_trainium.lowering.ops.masking import put_where
from torch_trainium.lowering.reductions import Combine
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Operand, Value

aten = torch.ops.aten

Indices = Sequence[Value | None]


# One index for one dimension


@lower(aten.index_select)
def index_select(x: Builder, a: Value, dim: int, index: Value) -> Value:
    rows = a if a.rank else x.reshape(a, [1])
    dim = x.dimension(rows, dim)
    taken = x.take(rows, in_range(x, index, rows.shape[dim]), dim)
    return taken if a.rank else x.reshape(taken, [])


@lower(aten.index_add)
def index_add(
    x: Builder, a: Value, dim: int, index: Value, source: Value, *, alpha: Operand
) -> Value:
    wide = dtypes.scatter_dtype(a.dtype)
    added = source.to(wide) * x.number(alpha, wide)
    return put_along(x, a.to(wide), dim, index, added, x.add).to(a.dtype)


@lower(aten.index_copy)
def index_copy(x: Builder, a: Value, dim: int, index: Value, source: Value) -> Value:
    return put_along(x, a, dim, index, source)


@lower(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(x: Builder, a: Value, dim: int, index: Value, value: Operand) -> Value:
    rows = a if a.rank else x.reshape(a, [1])
    dim = x.dimension(rows, dim)
    index = x.checked_index(index, rows.shape[dim])
    shape = [index.size if d == dim else n for d, n in enumerate(rows.shape)]
    filling = x.broadcast(x.number(value, a.dtype), shape)
    return put_along(x, a, dim, index, filling)


def put_along(
    x: Builder, a: Value, dim: int, index: Value, source: Value, combine: Combine | None = None
) -> Value:
    """Slices of `a` along a dimension replaced by, or combined with, those of `source`."""
    rows = a if a.rank else x.reshape(a, [1])
    dim = x.dimension(rows, dim)
    index = in_range(x, index, rows.shape[dim])
    shape = [index.size if d == dim else n for d, n in enumerate(rows.shape)]
    changed = x.put_slices(rows, index, x.reshape(source, shape), dim, combine)
    return x.reshape(changed, a.shape)


def in_range(x: Builder, index: Value, length: int) -> Value:
    """An index of one dimension at most, as one of exactly one; none counts from the end."""
    x.check((index < 0) | (index >= length), IndexError, "index out of range in self")
    return x.reshape(index, [index.size])


# Advanced indexing


@lower(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(x: Builder, a: Value, indices: Indices) -> Value:
    dims, vectors = _coordinates(x, a, indices)
    if not dims:
        return a
    rest = [n for d, n in enumerate(a.shape) if d not in dims]
    at = _place_of_indices(dims)
    shape = vectors.shape[:-1]
    inserted = range(at, at + len(shape))
    result_shape = [*rest[:at], *shape, *rest[at:]]
    if not a.size or not vectors.size:
        return x.constant(0, a.dtype, result_shape)
    return x.gather(
        a,
        vectors,
        slice_sizes=[1 if d in dims else n for d, n in enumerate(a.shape)],
        offset_dims=[d for d in range(len(result_shape)) if d not in inserted],
        collapsed_dims=dims,
        start_index_map=dims,
    )


@lower(aten.index_put, aten._unsafe_index_put)
def index_put(x: Builder, a: Value, indices: Indices, values: Value, accumulate: bool) -> Value:
    masks = [i for i in indices if i is not None and i.dtype in (torch.bool, torch.uint8)]
    if masks and sum(i is not None for i in indices) == 1:
        dim = next(d for d, i in enumerate(indices) if i is not None)
        return put_where(x, a, masks[0].to(torch.bool), values, dim, accumulate=accumulate)
    dims, vectors = _coordinates(x, a, indices)
    if not dims:
        return _add(x, a, values) if accumulate else x.broadcast(values, a.shape)
    rest = [n for d, n in enumerate(a.shape) if d not in dims]
    at = _place_of_indices(dims)
    shape = vectors.shape[:-1]
    placed = range(at, at + len(shape))
    updates = _expand(x, values, [*rest[:at], *shape, *rest[at:]])
    if not a.size or not updates.size:
        return a
    wide = dtypes.scatter_dtype(a.dtype) if accumulate else a.dtype
    changed = x.scatter(
        a.to(wide),
        vectors,
        updates.to(wide),
        x.add if accumulate else (lambda old, new: new),
        window_dims=[d for d in range(updates.rank) if d not in placed],
        inserted_dims=dims,
        index_map=dims,
    )
    return changed.to(a.dtype)


@lower(aten._index_put_impl)
def index_put_impl(
    x: Builder, a: Value, indices: Indices, values: Value, accumulate: bool, unsafe: bool
) -> Value:
    return index_put(x, a, indices, values, accumulate)


def _add(x: Builder, a: Value, b: Value) -> Value:
    """Addition, of booleans the logical or."""
    return a | b if a.dtype is torch.bool else a + b


def _expand(x: Builder, a: Value, shape: Sequence[int]) -> Value:
    """Broadcast, after dropping the leading ones that PyTorch lets pass in assignments."""
    extra = max(a.rank - len(shape), 0)
    return x.broadcast(x.reshape(a, a.shape[extra:]), shape)


def _coordinates(x: Builder, a: Value, indices: Indices) -> tuple[list[int], Value]:
    """The indexed dimensions, and their indices as vectors in the last dimension."""
    used = [(d, i) for d, i in enumerate(indices) if i is not None]
    if any(i.dtype in (torch.bool, torch.uint8) for _, i in used):
        raise LoweringError(
            "how many elements a boolean mask chooses is known only when the program runs; "
            "use torch.where, or integer indices"
        )
    dims = [d for d, _ in used]
    if not used:
        return dims, x.constant(0, torch.int32, [0])
    shape = broadcast_shape(*(i.shape for _, i in used))
    checked = [_in_dimension(x, i, d, a.shape[d]) for d, i in used]
    vectors = x.stack([x.broadcast(i, shape) for i in checked], dim=len(shape))
    return dims, vectors


def _in_dimension(x: Builder, index: Value, dim: int, length: int) -> Value:
    index = index.to(torch.int64)
    message = f"index is out of bounds for dimension {dim} with size {length}"
    return x.checked_index(index, length, message)


def _place_of_indices(dims: Sequence[int]) -> int:
    """Where the result has the dimensions of the indices: theirs if adjacent, else in front."""
    adjacent = list(dims) == list(range(dims[0], dims[0] + len(dims)))
    return dims[0] if adjacent else 0


# Indices into the elements in order


@lower(aten.take)
def take(x: Builder, a: Value, index: Value) -> Value:
    return x.take(x.reshape(a, [a.size]), x.checked_index(index, a.size))


@lower(aten.put)
def put(x: Builder, a: Value, index: Value, source: Value, accumulate: bool) -> Value:
    places = x.reshape(x.checked_index(index, a.size), [index.size])
    wide = dtypes.scatter_dtype(a.dtype) if accumulate else a.dtype
    flat = x.reshape(a, [a.size]).to(wide)
    updates = x.reshape(source, [source.size]).to(wide)
    changed = x.put_elements(flat, [places], updates, x.add if accumulate else None)
    return x.reshape(changed, a.shape).to(a.dtype)
