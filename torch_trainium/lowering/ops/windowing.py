"""Parts of an array read and replaced: slices, diagonals, sliding windows, with gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torch_trainium.lowering import dtypes, windows
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


@lower(aten.flip)
def flip(x: Builder, a: Value, dims: Sequence[int]) -> Value:
    return x.reverse(a, dims) if a.rank and dims else a


# Slices


@lower(aten.slice_scatter)
def slice_scatter(
    x: Builder, a: Value, source: Value, dim: int, start: int | None, end: int | None, step: int
) -> Value:
    dim = x.dimension(a, dim)
    first, _, _ = slice(start, end).indices(a.shape[dim])
    shape = [source.shape[d] if d == dim else n for d, n in enumerate(a.shape)]
    return _replace(x, a, x.broadcast(source, shape), dim, first, step)


@lower(aten.select_scatter)
def select_scatter(x: Builder, a: Value, source: Value, dim: int, index: int) -> Value:
    dim = x.dimension(a, dim)
    return _replace(x, a, x.unsqueeze(source, dim), dim, index % a.shape[dim], 1)


@lower(aten.slice_backward)
def slice_backward(
    x: Builder,
    grad: Value,
    input_sizes: Sequence[int],
    dim: int,
    start: int,
    end: int,
    step: int,
) -> Value:
    dim = x.dimension(grad, dim)
    first, _, _ = slice(start, end).indices(input_sizes[dim])
    return _spread(x, grad, input_sizes[dim], dim, first, step)


@lower(aten.select_backward)
def select_backward(
    x: Builder, grad: Value, input_sizes: Sequence[int], dim: int, index: int
) -> Value:
    dim = dim % len(input_sizes)
    length = input_sizes[dim]
    return _spread(x, x.unsqueeze(grad, dim), length, dim, index % length, 1)


@lower(aten.as_strided_scatter)
def as_strided_scatter(
    x: Builder,
    a: Value,
    source: Value,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None,
) -> Value:
    # Values have no strides: they are what a contiguous tensor is.
    window = windows.Window(a.dtype, tuple(size), tuple(stride), storage_offset or 0)
    places = x.reshape(windows.positions(x, window), [window.size])
    flat = x.reshape(a, [a.size])
    updates = x.reshape(x.broadcast(source, size), [window.size])
    return x.reshape(x.put_elements(flat, [places], updates), a.shape)


def _replace(x: Builder, a: Value, source: Value, dim: int, start: int, step: int) -> Value:
    length = a.shape[dim]
    if not source.size:
        return a
    chosen = x.constant(True, torch.bool, source.shape)
    mask = _spread(x, chosen, length, dim, start, step)
    return x.select(mask, _spread(x, source, length, dim, start, step), a)


def _spread(x: Builder, a: Value, length: int, dim: int, start: int, step: int) -> Value:
    """Slices of `a` at start, start + step, ... of a dimension with zeros in between."""
    if not a.size:
        return x.constant(0, a.dtype, [length if d == dim else n for d, n in enumerate(a.shape)])
    low, high, interior = [0] * a.rank, [0] * a.rank, [0] * a.rank
    low[dim], interior[dim] = start, step - 1
    high[dim] = length - start - (a.shape[dim] - 1) * step - 1
    return x.pad(a, 0, low, high, interior)


# Diagonals


@lower(aten.diagonal, aten.diagonal_copy)
def diagonal(x: Builder, a: Value, offset: int, dim1: int, dim2: int) -> Value:
    dims = [x.dimension(a, dim1), x.dimension(a, dim2)]
    vectors = _diagonal(x, a.shape, offset, dims)
    rest = [n for d, n in enumerate(a.shape) if d not in dims]
    if not a.size or not vectors.size:
        return x.constant(0, a.dtype, [*rest, vectors.shape[0]])
    return x.gather(
        a,
        vectors,
        slice_sizes=[1 if d in dims else n for d, n in enumerate(a.shape)],
        offset_dims=list(range(len(rest))),
        collapsed_dims=sorted(dims),
        start_index_map=dims,
    )


@lower(aten.diagonal_scatter)
def diagonal_scatter(
    x: Builder, a: Value, source: Value, offset: int, dim1: int, dim2: int
) -> Value:
    dims = [x.dimension(a, dim1), x.dimension(a, dim2)]
    vectors = _diagonal(x, a.shape, offset, dims)
    if not a.size or not vectors.size:
        return a
    return x.scatter(
        a,
        vectors,
        source,
        lambda old, new: new,
        window_dims=list(range(a.rank - 2)),
        inserted_dims=sorted(dims),
        index_map=dims,
        unique=True,
    )


@lower(aten.diagonal_backward)
def diagonal_backward(
    x: Builder, grad: Value, input_sizes: Sequence[int], offset: int, dim1: int, dim2: int
) -> Value:
    zeros = x.constant(0, grad.dtype, input_sizes)
    return diagonal_scatter(x, zeros, grad, offset, dim1, dim2)


def _diagonal(x: Builder, shape: Sequence[int], offset: int, dims: Sequence[int]) -> Value:
    """The coordinates of a diagonal's elements in its two dimensions."""
    rows, columns = max(-offset, 0), max(offset, 0)
    length = max(min(shape[dims[0]] - rows, shape[dims[1]] - columns), 0)
    position = x.iota(torch.int32, [length])
    return x.stack([position + rows, position + columns], dim=1)


# Sliding windows


@lower(aten.unfold, aten.unfold_copy)
def unfold(x: Builder, a: Value, dimension: int, size: int, step: int) -> Value:
    if a.rank == 0:
        return x.slice(x.reshape(a, [1]), [0], [size])
    dim = x.dimension(a, dimension)
    count = (a.shape[dim] - size) // step + 1
    windowed = x.take(a, _windows(x, count, size, step, 1), dim)
    order = [d for d in range(a.rank + 1) if d != dim + 1]
    return x.transpose(windowed, [*order, dim + 1])


@lower(aten.unfold_backward)
def unfold_backward(
    x: Builder, grad: Value, input_sizes: Sequence[int], dim: int, size: int, step: int
) -> Value:
    if not input_sizes:
        return x.reshape(x.sum(grad), []) if grad.size else x.constant(0, grad.dtype)
    dim = dim % len(input_sizes)
    wide = grad.to(dtypes.compute_dtype(grad.dtype))
    order = list(range(grad.rank - 1))
    order.insert(dim + 1, grad.rank - 1)
    index = _windows(x, grad.shape[dim], size, step, 1)
    zeros = x.constant(0, wide.dtype, input_sizes)
    return x.put_slices(zeros, index, x.transpose(wide, order), dim, x.add).to(grad.dtype)


@lower(aten.im2col)
def im2col(
    x: Builder,
    a: Value,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    batched = a if a.rank == 4 else x.unsqueeze(a, 0)
    edges = [0, 0, *padding]
    padded = x.pad(batched, 0, edges, edges)
    columns = [
        _windows(x, _count(padded.shape[2 + d], k, s, g), k, s, g)
        for d, (k, s, g) in enumerate(zip(kernel_size, stride, dilation, strict=True))
    ]
    # To batch, channel, row, row in the kernel, column, column in the kernel.
    blocks = x.take(x.take(padded, columns[1], 3), columns[0], 2)
    n, c, rows, k0, across, k1 = blocks.shape
    blocks = x.transpose(blocks, [0, 1, 3, 5, 2, 4])
    result = x.reshape(blocks, [n, c * k0 * k1, rows * across])
    return result if a.rank == 4 else x.squeeze(result, [0])


@lower(aten.col2im)
def col2im(
    x: Builder,
    a: Value,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    batched = a if a.rank == 3 else x.unsqueeze(a, 0)
    n, channels = batched.shape[0], batched.shape[1] // (kernel_size[0] * kernel_size[1])
    lengths = [length + 2 * p for length, p in zip(output_size, padding, strict=True)]
    counts = [
        _count(length, k, s, g)
        for length, k, s, g in zip(lengths, kernel_size, stride, dilation, strict=True)
    ]
    blocks = x.reshape(batched, [n, channels, *kernel_size, *counts])
    blocks = x.transpose(blocks, [0, 1, 4, 2, 5, 3]).to(dtypes.compute_dtype(a.dtype))
    # Columns first, while each row of a window is still apart.
    for d in (1, 0):
        index = _windows(x, counts[d], kernel_size[d], stride[d], dilation[d])
        dim = 2 + 2 * d
        shape = [*blocks.shape[:dim], lengths[d], *blocks.shape[dim + 2 :]]
        zeros = x.constant(0, blocks.dtype, shape)
        blocks = x.put_slices(zeros, index, blocks, dim, x.add)
    edges = [0, 0, *(-p for p in padding)]
    image = x.pad(blocks, 0, edges, edges).to(a.dtype)
    return image if a.rank == 3 else x.squeeze(image, [0])


def _count(length: int, size: int, step: int, dilation: int) -> int:
    return (length - dilation * (size - 1) - 1) // step + 1


def _windows(x: Builder, count: int, size: int, step: int, dilation: int) -> Value:
    """The positions that each window holds."""
    starts = x.iota(torch.int32, [count, size], 0) * step
    return starts + x.iota(torch.int32, [count, size], 1) * dilation
