"""Folds over windows, made of slices: the targets' windows fold one array with one operation.

The fold may meet an element more than once, so it has to be idempotent, as a maximum is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_trainium.lowering.builder import Builder
from torch_trainium.lowering.values import Value

# Takes as many arrays of elements, and again as many of others; gives the fold of both.
Fold = Callable[..., list[Value]]


def fold_windows(
    x: Builder,
    values: Sequence[Value],
    dim: int,
    size: int,
    fold: Fold,
    *,
    stride: int = 1,
    dilation: int = 1,
) -> list[Value]:
    """Several arrays of one shape folded together over all windows of a dimension that fit.

    Every step joins neighbouring windows to longer ones, so their number grows with log2(size).
    """
    folded = list(values)
    count = (folded[0].shape[dim] - dilation * (size - 1) - 1) // stride + 1
    covered = 1
    while covered < size:
        joined = min(2 * covered, size)
        shift = (joined - covered) * dilation
        if joined < size:
            length, step = folded[0].shape[dim] - shift, 1
        else:
            length, step = (count - 1) * stride + 1, stride
        near, far = (
            [x.slice_in_dim(v, dim, start, start + length, step) for v in folded]
            for start in (0, shift)
        )
        folded, covered = fold(*near, *far), joined
    if size > 1:
        return folded
    return [x.slice_in_dim(v, dim, 0, (count - 1) * stride + 1, stride) for v in folded]


def fold_dims(x: Builder, values: Sequence[Value], dims: Sequence[int], fold: Fold) -> list[Value]:
    """The same over whole dimensions, which go, by halves."""
    folded = list(values)
    for dim in dims:
        while (length := folded[0].shape[dim]) > 1:
            half = (length + 1) // 2
            near, far = (
                [x.slice_in_dim(v, dim, start, start + half) for v in folded]
                for start in (0, length - half)
            )
            folded = fold(*near, *far)
    return [x.squeeze(v, dims) for v in folded]
