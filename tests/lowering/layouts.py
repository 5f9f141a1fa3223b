"""Tensors of any shape, layout and special values, for tests that search for bad ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0)

# Every example may compile a program; the same examples come every time.
BOUNDED = settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

shapes = st.lists(st.sampled_from([0, 1, 2, 3, 5]), max_size=4).map(tuple)


@st.composite
def tensors(draw: st.DrawFn, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of this shape: its dimensions in any order in memory, with gaps, from any offset."""
    order = draw(st.permutations(range(len(shape))))
    strides, step = [0] * len(shape), draw(st.sampled_from([1, 1, 2]))
    for d in order:
        strides[d] = step
        step *= max(shape[d], 1) + draw(st.sampled_from([0, 0, 1]))
    offset = draw(st.sampled_from([0, 0, 1, 3]))
    base = _elements(offset + step + 1, dtype, seed=draw(st.integers(0, 9)))
    return base.as_strided(shape, strides, offset)


@st.composite
def broadcastable(draw: st.DrawFn, shape: Sequence[int]) -> tuple[tuple[int, ...], bool]:
    """A shape that broadcasts to `shape`, and whether to expand it before it is used."""
    first = draw(st.integers(0, len(shape)))
    lengths = tuple(draw(st.sampled_from([n, n, 1])) for n in shape[first:])
    return lengths, draw(st.booleans())


@st.composite
def operands(draw: st.DrawFn, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor that broadcasts to `shape`, some with strides of zero."""
    own, expanded = draw(broadcastable(shape))
    tensor = draw(tensors(own, dtype))
    return tensor.expand(shape) if expanded else tensor


def _elements(count: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if not dtype.is_floating_point:
        return torch.randint(0, 2 if dtype is torch.bool else 50, (count,), generator=generator).to(
            dtype
        )
    made = torch.randn(count, generator=generator)
    special = torch.tensor(SPECIAL)[torch.randint(0, len(SPECIAL), (count,), generator=generator)]
    return torch.where(torch.rand(count, generator=generator) < 0.2, special, made).to(dtype)


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements at the same places of other memory, with all that lies between them."""
    return (
        memory_of(tensor).clone().as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    )


def memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """All that a tensor's memory holds."""
    count = tensor.untyped_storage().nbytes() // tensor.itemsize
    return tensor.as_strided([count], [1], 0)


def same_layout(actual: Any, expected: Any) -> None:
    """Equal elements, and equal strides where a step is taken."""
    torch.testing.assert_close(actual, expected, equal_nan=True)
    if expected.numel():
        taken = [d for d, n in enumerate(expected.shape) if n > 1]
        assert [actual.stride(d) for d in taken] == [expected.stride(d) for d in taken]
