"""Embeddings and bags of them, with gradients."""

from __future__ import annotations

import math

import torch

from torch_trainium.lowering import dtypes
from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.ops.sorting import search
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Operand, Value

aten = torch.ops.aten

SUM, MEAN, MAX = 0, 1, 2

# Results of a CPU kernel that it does not fill in, and so leaves empty, for these.
_SUMMED_WITHOUT_BAGS = (torch.float32, torch.float16, torch.bfloat16)


@lower(aten.embedding)
def embedding(
    x: Builder, weight: Value, indices: Value, padding_idx: int, scale: bool, sparse: bool
) -> Value:
    return x.take(weight, _in_table(x, indices, weight.shape[0]))


@lower(aten.embedding_dense_backward)
def embedding_dense_backward(
    x: Builder,
    grad: Value,
    indices: Value,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Value:
    index = x.reshape(_in_table(x, indices, num_weights), [indices.size])
    width = grad.shape[-1] if grad.rank > indices.rank else 1
    rows = x.reshape(grad, [index.size, width])
    rows = rows.to(dtypes.compute_dtype(grad.dtype))
    if scale_grad_by_freq:
        rows = rows / x.unsqueeze(_frequency(x, index, num_weights).to(rows.dtype), 1)
    summed = _sum_rows(x, rows, index, num_weights, index.ne(padding_idx))
    return summed.to(grad.dtype)


@lower(aten.embedding_renorm, static=("norm_type",))
def embedding_renorm(
    x: Builder, a: Value, indices: Value, max_norm: Operand, norm_type: float
) -> Value:
    index = x.reshape(_in_table(x, indices, a.shape[0]), [indices.size])
    used = x.put_slices(
        x.constant(False, torch.bool, [a.shape[0]]),
        index,
        x.constant(True, torch.bool, index.shape),
        0,
    )
    wide = a.to(dtypes.compute_dtype(a.dtype))
    size = x.abs(wide)
    if norm_type == math.inf:
        norm = x.max(size, [1])
    elif norm_type == 2:
        norm = x.sqrt(x.sum(size * size, [1]))
    else:
        norm = x.power(x.sum(x.power(size, norm_type), [1]), 1 / norm_type)
    limit = x.number(max_norm, wide.dtype)
    factor = x.select(used & (norm > limit), limit / (norm + 1e-7), 1)
    return (wide * x.unsqueeze(factor, 1)).to(a.dtype)


# Bags: the rows of one bag summed, averaged, or their largest elements


@lower(aten._embedding_bag, aten._embedding_bag_forward_only)
def embedding_bag(
    x: Builder,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Value | None,
    include_last_offset: bool,
    padding_idx: int,
) -> tuple[Value, Value, Value, Value]:
    bags = offsets.shape[0] - int(include_last_offset)
    index = _in_table(x, indices, weight.shape[0])
    bag = _bag_of_each(x, index, offsets, bags)
    kept = index.ne(padding_idx)
    rows = x.take(weight, index).to(dtypes.compute_dtype(weight.dtype))
    if per_sample_weights is not None:
        rows = rows * x.unsqueeze(per_sample_weights.to(rows.dtype), 1)
    zeros = x.constant(0, offsets.dtype, [bags])
    if mode == MAX:
        values, largest = _largest(x, rows, index, bag, kept, bags)
        size = _bag_size(x, bag, kept, bags).to(offsets.dtype)
        return values.to(weight.dtype), bag.to(offsets.dtype), size, largest.to(offsets.dtype)
    summed = _sum_rows(x, rows, bag, bags, kept)
    if mode == SUM:
        left_out = weight.dtype in _SUMMED_WITHOUT_BAGS and padding_idx < 0
        given = x.constant(0, offsets.dtype, [0]) if left_out else bag.to(offsets.dtype)
        return summed.to(weight.dtype), given, zeros, zeros
    size = _bag_size(x, bag, kept, bags)
    mean = summed / x.unsqueeze(x.maximum(size, 1).to(rows.dtype), 1)
    size = size.to(offsets.dtype)
    return mean.to(weight.dtype), bag.to(offsets.dtype), size, size


@lower(aten._embedding_bag_backward)
def embedding_bag_backward(
    x: Builder,
    grad: Value,
    indices: Value,
    offsets: Value,
    offset2bag: Value,
    bag_size: Value,
    maximum_indices: Value,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Value | None,
    padding_idx: int,
) -> Value:
    if not offset2bag.size:
        offset2bag = _bag_of_each(x, indices, offsets, offsets.shape[0])
    return embedding_bag_dense_backward(
        x,
        grad,
        indices,
        offset2bag,
        bag_size,
        maximum_indices,
        num_weights,
        scale_grad_by_freq,
        mode,
        per_sample_weights,
        padding_idx,
    )


@lower(aten._embedding_bag_dense_backward)
def embedding_bag_dense_backward(
    x: Builder,
    grad: Value,
    indices: Value,
    offset2bag: Value,
    bag_size: Value,
    maximum_indices: Value,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Value | None,
    padding_idx: int,
) -> Value:
    wide = grad.to(dtypes.compute_dtype(grad.dtype))
    if mode == MAX:
        return _largest_backward(x, wide, bag_size, maximum_indices, num_weights).to(grad.dtype)
    rows = x.take(wide, offset2bag)
    if mode == MEAN:
        sizes = x.maximum(x.take(bag_size, offset2bag), 1)
        rows = rows / x.unsqueeze(sizes.to(wide.dtype), 1)
    if per_sample_weights is not None:
        rows = rows * x.unsqueeze(per_sample_weights.to(wide.dtype), 1)
    if scale_grad_by_freq:
        rows = rows / x.unsqueeze(_frequency(x, indices, num_weights).to(wide.dtype), 1)
    return _sum_rows(x, rows, indices, num_weights, indices.ne(padding_idx)).to(grad.dtype)


@lower(aten._embedding_bag_per_sample_weights_backward)
def per_sample_weights_backward(
    x: Builder,
    grad: Value,
    weight: Value,
    indices: Value,
    offsets: Value,
    offset2bag: Value,
    mode: int,
    padding_idx: int,
) -> Value:
    if not offset2bag.size:
        offset2bag = _bag_of_each(x, indices, offsets, offsets.shape[0])
    wide = dtypes.compute_dtype(grad.dtype)
    rows = x.take(weight, indices).to(wide) * x.take(grad, offset2bag).to(wide)
    return x.select(indices.ne(padding_idx), x.sum(rows, [1]), 0).to(grad.dtype)


def _in_table(x: Builder, indices: Value, length: int) -> Value:
    x.check((indices < 0) | (indices >= length), IndexError, "index out of range in self")
    return indices


def _frequency(x: Builder, index: Value, length: int) -> Value:
    """How often each index occurs."""
    dtype = dtypes.counting_dtype(index.size)
    ones = x.constant(1, dtype, index.shape)
    counts = x.put_slices(x.constant(0, dtype, [length]), index, ones, 0, x.add)
    return x.take(counts, index)


def _sum_rows(x: Builder, rows: Value, index: Value, length: int, kept: Value) -> Value:
    rows = x.select(x.unsqueeze(kept, 1), rows, 0)
    zeros = x.constant(0, rows.dtype, [length, rows.shape[1]])
    return x.put_slices(zeros, index, rows, 0, x.add)


def _bag_of_each(x: Builder, index: Value, offsets: Value, bags: int) -> Value:
    x.check(
        x.slice(offsets, [0], [min(offsets.size, 1)]).ne(0),
        RuntimeError,
        "offsets[0] has to be 0: the first bag starts with the first index",
    )
    position = x.iota(offsets.dtype, index.shape)
    starts = x.slice(offsets, [0], [bags])
    bag = search(x, starts, position, None, upper=True) - 1
    return x.maximum(bag, 0).to(index.dtype)


def _bag_size(x: Builder, bag: Value, kept: Value, bags: int) -> Value:
    dtype = dtypes.counting_dtype(bag.size)
    return x.put_slices(x.constant(0, dtype, [bags]), bag, kept.to(dtype), 0, x.add)


def _largest(
    x: Builder, rows: Value, index: Value, bag: Value, kept: Value, bags: int
) -> tuple[Value, Value]:
    """The largest elements of each bag, and the rows of the table that they come from."""
    shape = [bags, rows.shape[1]]
    low = x.constant(-math.inf, rows.dtype, shape)
    kept = x.broadcast(x.unsqueeze(kept, 1), rows.shape)
    best = x.put_slices(low, bag, x.select(kept, rows, -math.inf), 0, x.maximum)
    is_best = kept & (rows.eq(x.take(best, bag)) | x.is_nan(rows))
    last = index.size
    dtype = dtypes.counting_dtype(last)
    position = x.select(is_best, x.iota(dtype, rows.shape), last)
    first = x.put_slices(x.constant(last, dtype, shape), bag, position, 0, x.minimum)
    found = first < last
    source = x.select(found, x.take(index, x.minimum(first, last - 1).to(torch.int32)), 0)
    return x.select(found, best, 0), source


def _largest_backward(
    x: Builder, grad: Value, bag_size: Value, maximum_indices: Value, num_weights: int
) -> Value:
    own = x.select(x.unsqueeze(bag_size.ne(0), 1), grad, 0)
    zeros = x.constant(0, grad.dtype, [num_weights, grad.shape[1]])
    places = [maximum_indices.to(torch.int32), x.iota(torch.int32, grad.shape, 1)]
    return x.put_elements(zeros, places, own, x.add)
