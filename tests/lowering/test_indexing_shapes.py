"""Reading and writing by indices of every shape: negative ones, and ones out of range."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_trainium import eager
from torch_trainium.neuron.cpu_fallbacks import native_means_expressible

from .compiled import assert_same, few, whole_numbers

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=3)
# What is added up, or multiplied, is exact in these.
DTYPES = st.sampled_from([torch.float32, torch.int64, torch.bool, torch.bfloat16])


def indices(draw: st.DrawFn, length: int, shape: list[int], *, negative: bool) -> torch.Tensor:
    """Mostly in range; rarely just outside of it."""
    edge = draw(st.sampled_from([0] * 7 + [1]))
    numbers = st.integers((-length if negative else 0) - edge, length - 1 + edge)
    size = int(torch.Size(shape).numel())
    return torch.tensor(
        draw(st.lists(numbers, min_size=size, max_size=size)), dtype=torch.int64
    ).reshape(shape)


@st.composite
def along_dimensions(draw: st.DrawFn) -> tuple[torch.Tensor, int, torch.Tensor, torch.Tensor]:
    """Operand, dimension, an index for each element of the fourth, which fits into the operand."""
    shape = draw(SHAPES)
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    smaller = [draw(st.integers(1, n)) for n in shape]
    smaller[dim] = draw(st.integers(0, 5))
    index = indices(draw, shape[dim], smaller, negative=False)
    dtype = draw(DTYPES)
    return whole_numbers(shape).to(dtype), dim, index, whole_numbers(smaller, 1, 3).to(dtype)


@few(15)
@given(along_dimensions(), st.sampled_from(["sum", "prod", "amax", "amin", "mean"]), st.booleans())
def test_one_index_for_each_element(case, reduce, include_self):
    a, dim, index, source = case
    assert_same(torch.gather, a, dim, index)
    assert_same(torch.scatter_add, a, dim, index, source)
    if a.dtype is not torch.bool:
        assert_same(
            lambda *given: torch.scatter_reduce(*given, reduce, include_self=include_self),
            a,
            dim,
            index,
            source,
            exact=a.dtype is not torch.bfloat16,
        )


@few(20)
@given(along_dimensions())
def test_one_index_for_each_slice(case):
    a, dim, index, _ = case
    row = index.reshape(-1)[:4]
    shape = list(a.shape)
    shape[dim] = row.numel()
    source = whole_numbers(shape, 1, 3).to(a.dtype)
    assert_same(torch.index_select, a, dim, row)
    assert_same(torch.index_add, a, dim, row, source)
    assert_same(torch.index_fill, a, dim, row, 2)


@few(20)
@given(st.data())
def test_indices_that_broadcast(data):
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    size = data.draw(st.lists(st.integers(0, 3), max_size=2))
    chosen: list[Any] = []
    for length in shape[: data.draw(st.integers(1, len(shape)))]:
        part = [n if data.draw(st.booleans()) else 1 for n in size]
        index = indices(data.draw, length, part, negative=True)
        chosen.append(data.draw(st.sampled_from([index, index, None])))
    if all(index is None for index in chosen):
        chosen = [torch.tensor(0)]
    a = whole_numbers(shape).to(data.draw(DTYPES))
    assert_same(torch.ops.aten.index.Tensor, a, chosen)
    value = torch.tensor(1).to(a.dtype)
    assert_same(torch.ops.aten.index_put.default, a, chosen, value, True)
    assert_same(torch.ops.aten.index_put.default, a, chosen, value)


@few(20)
@given(st.data())
def test_a_mask_that_is_written_through(data):
    shape = data.draw(SHAPES)
    first = data.draw(st.integers(0, len(shape) - 1))
    last = data.draw(st.integers(first + 1, len(shape)))
    mask = torch.rand(shape[first:last]) < 0.5
    rows = [*shape[:first], int(mask.sum()), *shape[last:]]
    number = torch.tensor(3.0)
    values = data.draw(st.sampled_from([number, whole_numbers(rows)]))
    chosen = [*[None] * first, mask]
    for accumulate in (False, True):
        assert_same(
            torch.ops.aten.index_put.default, whole_numbers(shape), chosen, values, accumulate
        )


@few(10)
@given(st.data())
def test_a_mask_beside_other_indices(data):
    shape = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=3))
    mask = torch.rand(shape[:1]) < 0.5
    index = indices(
        data.draw, shape[1], [data.draw(st.sampled_from([1, int(mask.sum())]))], negative=True
    )

    def write(a: torch.Tensor, mask: torch.Tensor, index: torch.Tensor) -> Any:
        read = a[mask, index]
        a[mask, index] = 7
        return read, a

    assert_same(write, whole_numbers(shape), mask, index)


@few(15)
@given(st.data())
def test_elements_by_their_number(data):
    a = whole_numbers(data.draw(SHAPES))
    index = indices(data.draw, a.numel(), data.draw(SHAPES), negative=True)
    assert_same(torch.take, a, index)
    assert_same(lambda *given: torch.put(*given, accumulate=True), a, index, index.float())


@few(15)
@given(along_dimensions())
def test_a_place_written_once(case):
    a, dim, index, source = case
    # Of several elements written to one place any may stay.
    distinct = torch.argsort(torch.rand(a.shape), dim).narrow(
        dim, 0, min(index.shape[dim], a.shape[dim])
    )
    inside = distinct[tuple(slice(n) for n in source.shape)]
    assert_same(torch.scatter, a, dim, inside, source)
    assert_same(lambda *given: torch.scatter(*given, 1), a, dim, inside)


@few(10)
@given(along_dimensions())
def test_indices_along_a_dimension_broadcast(case):
    a, dim, index, _ = case
    thin = index[tuple(slice(None) if d == dim % a.dim() else slice(1) for d in range(a.dim()))]
    assert_same(torch.take_along_dim, a, thin, dim)


@pytest.mark.parametrize("index", [3, -4])
def test_an_index_out_of_range_writes_nothing(index):
    a = torch.zeros(3, device="neuron")
    at = torch.tensor([0, index], device="neuron")
    with eager.eager_mode_is("compiled"), native_means_expressible(), eager.fallback_is("error"):
        with pytest.raises(IndexError):
            a[at] = 1
        with pytest.raises(IndexError):
            a.index_add_(0, at, torch.ones(2, device="neuron"))
        with pytest.raises(IndexError):
            a.scatter_(0, at, 1.0)
    assert a.tolist() == [0, 0, 0]
