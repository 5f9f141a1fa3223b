"""Elements chosen by masks, where the result's shape does not depend on how many there are."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.elementwise import broadcast_shape
from torch_trainium.lowering.registry import lower
from torch_trainium.lowering.values import Value

aten = torch.ops.aten


@lower(aten.masked_scatter)
def masked_scatter(x: Builder, a: Value, mask: Value, source: Value) -> Value:
    shape = broadcast_shape(a.shape, mask.shape)
    a, mask = x.broadcast(a, shape), x.broadcast(mask, shape)
    order = _order_of_true(x, mask)
    x.check(
        mask & (order >= source.size),
        RuntimeError,
        "masked_scatter: expected self and source to have same dtypes and enough elements",
    )
    chosen = x.take(x.reshape(source, [source.size]), order)
    return x.select(mask, chosen, a)


@lower(aten.masked_scatter_backward)
def masked_scatter_backward(x: Builder, grad: Value, mask: Value, sizes: Sequence[int]) -> Value:
    mask = x.broadcast(mask, grad.shape)
    length = 1
    for n in sizes:
        length *= n
    packed = _packed(x, grad, mask, x.constant(0, grad.dtype, [length]))
    return x.reshape(packed, sizes)


@lower(aten.nonzero_static)
def nonzero_static(x: Builder, a: Value, *, size: int, fill_value: int) -> Value:
    mask = a.to(torch.bool)
    columns = [
        _packed(
            x, x.iota(torch.int64, a.shape, d), mask, x.constant(fill_value, torch.int64, [size])
        )
        for d in range(a.rank)
    ]
    return x.stack(columns, dim=1) if columns else x.constant(0, torch.int64, [size, 0])


def put_where(
    x: Builder, a: Value, mask: Value, values: Value, dim: int, *, accumulate: bool
) -> Value:
    """`a[..., mask] = values`, where the mask stands for its dimensions from `dim` on.

    `values` has one dimension in their place, with as many elements as the mask chooses, or one.
    """
    after = a.rank - dim - mask.rank
    lead, count, trail = _aligned(values, dim, after)
    spread = [*[1] * (a.rank - after - mask.rank), *mask.shape, *[1] * after]
    if count == 1:
        chosen = x.reshape(values, [*lead, *[1] * mask.rank, *trail])
    else:
        total = x.sum(mask.to(torch.int32))
        x.check(total.ne(count), IndexError, "the values do not broadcast to what the mask chooses")
        rows = x.reshape(values, [*lead, count, *trail])
        chosen = x.take(rows, _order_of_true(x, mask), len(lead))
    chosen = x.broadcast(chosen, a.shape)
    if accumulate:
        chosen = a | chosen if a.dtype is torch.bool else a + chosen
    return x.select(x.broadcast(x.reshape(mask, spread), a.shape), chosen, a)


def _aligned(values: Value, before: int, after: int) -> tuple[list[int], int, list[int]]:
    """The shape of values that broadcast to (before, chosen elements, after), in three parts."""
    shape = [1] * (before + 1 + after - values.rank) + list(values.shape)
    shape = shape[len(shape) - before - 1 - after :]
    return shape[:before], shape[before], shape[before + 1 :]


def _packed(x: Builder, a: Value, mask: Value, start: Value) -> Value:
    """The elements that the mask chooses, in order, over the beginning of `start`."""
    # What is not chosen goes behind the end, where nothing is written.
    places = x.select(mask, _order_of_true(x, mask), start.size)
    flat = [x.reshape(v, [v.size]) for v in (places, a)]
    return x.put_elements(start, [flat[0]], flat[1])


def _order_of_true(x: Builder, mask: Value) -> Value:
    """Of each chosen element, how many are chosen before it; some number below it elsewhere."""
    flat = x.reshape(mask, [mask.size]).to(torch.int32)
    if not mask.size:
        return x.reshape(flat, mask.shape)
    (counts,) = x.reduce_window([flat], [0], x.add, [mask.size], padding=[(mask.size - 1, 0)])
    return x.reshape(x.maximum(counts - 1, 0), mask.shape)
