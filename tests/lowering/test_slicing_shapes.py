"""Views and what moves elements, as operands of programs and as what they write to."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from .compiled import assert_same, few, gradients, whole_numbers

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@st.composite
def sliced(draw: st.DrawFn) -> tuple[list[int], tuple[Any, ...]]:
    """A shape, and an index of slices, numbers, new dimensions and an ellipsis for it."""
    shape = draw(SHAPES)
    index: list[Any] = []
    for length in shape[: draw(st.integers(0, len(shape)))]:
        number = st.integers(-length, length - 1)
        bound = st.one_of(st.none(), st.integers(-length - 1, length + 1))
        step = draw(st.sampled_from([None, 1, 2, 3]))
        part = st.builds(lambda start, end, step=step: slice(start, end, step), bound, bound)
        index.append(draw(st.one_of(part, part, number)))
        if draw(st.integers(0, 5)) == 0:
            index.append(None)
    if draw(st.booleans()):
        index.append(...)
    return shape, tuple(index)


@few(30)
@given(sliced())
def test_slices_are_read_and_written(case):
    shape, index = case

    def write(a: torch.Tensor) -> Any:
        read = a[index] + 1
        a[index] = 7
        b = a * 2
        b[index].mul_(3)
        return read, a, b

    assert_same(write, whole_numbers(shape))
    assert_same(lambda a: gradients(lambda a: a[index] * 2, a), whole_numbers(shape))


@few(25)
@given(st.data())
def test_any_strides_over_a_storage(data):
    size = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    stride = [data.draw(st.integers(0, 4)) for _ in size]
    offset = data.draw(st.integers(0, 4))
    reach = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1
    base = torch.arange(float(reach + data.draw(st.integers(0, 3))))

    def read(a: torch.Tensor) -> torch.Tensor:
        return torch.as_strided(a, size, stride, offset) + 1

    assert_same(read, base)
    assert_same(lambda a: gradients(read, a), base)


@few(20)
@given(SHAPES, st.data())
def test_elements_change_places(shape, data):
    dims = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, max_size=3))
    shifts = [data.draw(st.integers(-7, 7)) for _ in dims]
    a = data.draw(st.sampled_from([whole_numbers(shape), whole_numbers(shape).to(torch.bool)]))
    assert_same(torch.flip, a, dims)
    assert_same(torch.roll, a, shifts or [data.draw(st.integers(-7, 7))], dims)
    assert_same(torch.tile, a, [data.draw(st.integers(1, 3)) for _ in shape])


@few(20)
@given(SHAPES, st.data())
def test_parts_are_replaced(shape, data):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    length = shape[dim]
    index = data.draw(st.integers(-length, length - 1))
    a, other = whole_numbers(shape), whole_numbers(shape)
    start = data.draw(st.integers(-length, length))
    step = data.draw(st.integers(1, 3))
    rows = other[
        tuple(
            slice(start, None, step) if d == dim % len(shape) else slice(None)
            for d in range(len(shape))
        )
    ]
    assert_same(torch.select_scatter, a, other.select(dim, index), dim, index)
    assert_same(torch.slice_scatter, a, rows, dim, start, None, step)
    if len(shape) > 1:
        offset = data.draw(st.integers(-shape[0], shape[1]))
        assert_same(torch.diagonal_scatter, a, other.diagonal(offset), offset)


@st.composite
def padded(draw: st.DrawFn, mode: str) -> tuple[list[int], list[int]]:
    """A shape, and how much its last dimensions are padded; negative amounts crop."""
    dims = draw(st.integers(1, 3))
    image = [draw(st.integers(1, 5)) for _ in range(dims)]
    amounts: list[int] = []
    for length in reversed(image):
        most = {"reflect": length - 1, "circular": length}.get(mode, 4)
        low = draw(st.integers(-1 if length > 2 else 0, most))
        high = draw(st.integers(-1 if length > 2 else 0, most))
        amounts += [low, high]
    return [2, draw(st.integers(1, 2)), *image], amounts


@few(30)
@given(st.sampled_from(["constant", "reflect", "replicate", "circular"]), st.data())
def test_padding_and_its_gradient(mode, data):
    shape, amounts = data.draw(padded(mode))

    def pad(a: torch.Tensor) -> torch.Tensor:
        return functional.pad(a, amounts, mode)

    assert_same(lambda a: gradients(pad, a), whole_numbers(shape))
    if mode == "constant":
        assert_same(lambda a: functional.pad(a, amounts, mode, 2.5), whole_numbers(shape))
