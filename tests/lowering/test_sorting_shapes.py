"""Sorting and order statistics: ties, NaN, zeros of both signs, extremes of every dtype."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from .compiled import assert_same, few, on_device

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
NUMBERS = (float("nan"), -float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 1.5)


@st.composite
def rows(draw: st.DrawFn) -> tuple[torch.Tensor, int]:
    """A tensor with many equal elements, and a dimension."""
    dtype = draw(st.sampled_from([*FLOATS, *INTEGERS, torch.bool]))
    shape = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    if dtype is torch.bool:
        numbers: Any = (False, True)
    elif dtype.is_floating_point:
        numbers = NUMBERS
    else:
        bounds = torch.iinfo(dtype)
        numbers = (bounds.min, bounds.max, bounds.max // 3, bounds.max // 2, 0, 1, 7)
    size = int(torch.Size(shape).numel())
    chosen = draw(st.lists(st.sampled_from(numbers), min_size=size, max_size=size))
    return torch.tensor(chosen, dtype=dtype).view(shape), draw(st.integers(0, len(shape) - 1))


def signs(a: torch.Tensor) -> torch.Tensor:
    """What tells zeros apart, too."""
    return torch.signbit(a) & ~a.isnan() if a.dtype.is_floating_point else a < 0


@few(20)
@given(rows(), st.booleans())
def test_a_stable_sort(case, descending):
    a, dim = case

    def order(a: torch.Tensor) -> Any:
        values, at = torch.sort(a, dim=dim, descending=descending, stable=True)
        return values, at, signs(values)

    assert_same(order, a)


@few(20)
@given(rows(), st.booleans(), st.data())
def test_the_largest_and_the_smallest_come_in_order_and_of_equals_the_first(case, largest, data):
    a, dim = case
    k = data.draw(st.integers(0, a.shape[dim]))
    expected = torch.sort(a, dim=dim, descending=largest, stable=True)
    values, at = on_device(lambda a: torch.topk(a, k, dim, largest), a)
    torch.testing.assert_close(values, expected.values.narrow(dim, 0, k), equal_nan=True)
    assert torch.equal(at, expected.indices.narrow(dim, 0, k))


@few(20)
@given(rows(), st.booleans(), st.data())
def test_order_statistics_and_where_they_are(case, keepdim, data):
    a, dim = case
    if a.dtype is torch.bool:
        a = a.to(torch.int8)
    k = data.draw(st.integers(1, a.shape[dim]))
    for find in (
        lambda a: torch.kthvalue(a, k, dim, keepdim),
        lambda a: torch.median(a, dim, keepdim),
        lambda a: torch.nanmedian(a, dim, keepdim),
    ):
        expected = find(a).values
        values, at = on_device(find, a)
        torch.testing.assert_close(values, expected, equal_nan=True)
        # Of equals any may be named.
        found = a.gather(dim, at if keepdim else at.unsqueeze(dim))
        found = found if keepdim else found.squeeze(dim)
        torch.testing.assert_close(found, values, equal_nan=True, rtol=0, atol=0)


@few(20)
@given(rows(), st.data(), st.booleans())
def test_searches(case, data, right):
    boundaries, _ = case
    boundaries = boundaries.sort(dim=-1).values
    if boundaries.dtype is torch.bool:
        return
    wanted = boundaries[..., : data.draw(st.integers(0, boundaries.shape[-1]))]
    assert_same(lambda *given: torch.searchsorted(*given, right=right), boundaries, wanted)
