"""Views, and what rearranges elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from torch_trainium.lowering import windows
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.promotion import result_dtype
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


@lower(aten.view, aten._unsafe_view, aten.reshape, aten.view_copy)
def view(x: Builder, a: Value, size: Sequence[int]) -> Value:
    return x.reshape(a, size)


@lower(aten._reshape_alias, aten._reshape_alias_copy)
def reshape_alias(x: Builder, a: Value, size: Sequence[int], stride: Sequence[int]) -> Value:
    return x.reshape(a, size)


@lower(aten.as_strided, aten.as_strided_copy)
def as_strided(
    x: Builder,
    a: Value,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None,
) -> Value:
    # Values have no strides: they are what a contiguous tensor is.
    window = windows.Window(a.dtype, tuple(size), tuple(stride), storage_offset or 0)
    flat = x.reshape(a, [a.size])
    return x.take(flat, windows.positions(x, window)) if a.size else a


@lower(aten.permute, aten.permute_copy)
def permute(x: Builder, a: Value, dims: Sequence[int]) -> Value:
    return x.transpose(a, dims)


@lower(aten.transpose.int, aten.transpose_copy.int)
def transpose(x: Builder, a: Value, first: int, second: int) -> Value:
    order = list(range(a.rank))
    first, second = x.dimension(a, first), x.dimension(a, second)
    if a.rank:
        order[first], order[second] = order[second], order[first]
    return x.transpose(a, order)


@lower(aten.t, aten.t_copy)
def t(x: Builder, a: Value) -> Value:
    return x.transpose(a, range(a.rank)[::-1])


@lower(aten.expand, aten.expand_copy)
def expand(x: Builder, a: Value, size: Sequence[int]) -> Value:
    new = len(size) - a.rank
    return x.broadcast(a, [a.shape[d - new] if n == -1 else n for d, n in enumerate(size)])


@lower(aten.unsqueeze, aten.unsqueeze_copy)
def unsqueeze(x: Builder, a: Value, dim: int) -> Value:
    return x.unsqueeze(a, dim)


@lower(aten.squeeze, aten.squeeze_copy)
def squeeze(x: Builder, a: Value) -> Value:
    return x.reshape(a, [n for n in a.shape if n != 1])


@lower(aten.squeeze.dim, aten.squeeze_copy.dim)
def squeeze_dim(x: Builder, a: Value, dim: int) -> Value:
    return squeeze_dims(x, a, [dim])


@lower(aten.squeeze.dims, aten.squeeze_copy.dims)
def squeeze_dims(x: Builder, a: Value, dims: Sequence[int]) -> Value:
    return x.squeeze(a, [d for d in dims if a.rank and a.shape[d] == 1])


@lower(aten.select.int, aten.select_copy.int)
def select(x: Builder, a: Value, dim: int, index: int) -> Value:
    dim = x.dimension(a, dim)
    index = index + a.shape[dim] if index < 0 else index
    return x.squeeze(x.slice_in_dim(a, dim, index, index + 1), [dim])


@lower(aten.slice.Tensor, aten.slice_copy.Tensor)
def slice_(x: Builder, a: Value, dim: int, start: int | None, end: int | None, step: int) -> Value:
    length = a.shape[x.dimension(a, dim)]
    start, end, _ = slice(start, end).indices(length)
    return x.slice_in_dim(a, dim, start, max(start, end), step)


@lower(aten.split_with_sizes, aten.split_with_sizes_copy, aten.unsafe_split_with_sizes)
def split_with_sizes(x: Builder, a: Value, split_sizes: Sequence[int], dim: int) -> list[Value]:
    ends = [sum(split_sizes[: i + 1]) for i in range(len(split_sizes))]
    return [
        x.slice_in_dim(a, dim, end - size, end) for end, size in zip(ends, split_sizes, strict=True)
    ]


@lower(aten.split.Tensor, aten.split_copy.Tensor, aten.unsafe_split.Tensor)
def split(x: Builder, a: Value, split_size: int, dim: int) -> list[Value]:
    length = a.shape[x.dimension(a, dim)]
    pieces = max(math.ceil(length / split_size), 1) if split_size else 1
    starts = [i * split_size for i in range(pieces)]
    return [x.slice_in_dim(a, dim, s, min(s + split_size, length)) for s in starts]


@lower(aten.unbind.int, aten.unbind_copy.int)
def unbind(x: Builder, a: Value, dim: int) -> list[Value]:
    return [select(x, a, dim, i) for i in range(a.shape[x.dimension(a, dim)])]


@lower(aten.cat)
def cat(x: Builder, tensors: Sequence[Value], dim: int) -> Value:
    dtype = result_dtype(tensors)
    # An empty vector joins anything.
    joined = [t.to(dtype) for t in tensors if t.shape != (0,)]
    return x.concatenate(joined, dim) if joined else tensors[0].to(dtype)
