"""Running folds along any dimension of tensors of any layout."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_trainium.eager import calls

from .compare import on_the_cpu
from .layouts import BOUNDED, same_layout, shapes, tensors

aten = torch.ops.aten

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)
SUMS = (aten.cumsum.default, aten.cumprod.default)
EXTREMES = (aten.cummax.default, aten.cummin.default)


@BOUNDED
@given(st.data())
def test_running_sums_and_products(data: st.DataObject) -> None:
    a, dim = _tensor_and_dim(data)
    overload = data.draw(st.sampled_from(SUMS))
    dtype = data.draw(st.sampled_from([None, torch.float32, torch.int32]))
    if a.dtype.is_floating_point and dtype is torch.int32:
        dtype = None  # what NaN becomes is left open
    _agree(overload, a, dim, dtype=dtype)


@BOUNDED
@given(st.data())
def test_running_extremes_and_their_places(data: st.DataObject) -> None:
    _agree(data.draw(st.sampled_from(EXTREMES)), *_tensor_and_dim(data))


@BOUNDED
@given(st.data())
def test_running_logarithms_of_sums(data: st.DataObject) -> None:
    a = data.draw(tensors(data.draw(shapes), torch.float32))
    _agree(aten.logcumsumexp.default, a, data.draw(_dims(a)))


@pytest.mark.parametrize("overload", [*SUMS, *EXTREMES])
def test_a_dimension_that_is_not_there_is_refused(overload: Any) -> None:
    with on_the_cpu(), pytest.raises(IndexError, match="Dimension out of range"):
        calls.call(overload, torch.ones(2, 3), 2)


@pytest.mark.parametrize("length", [1, 2, 1023, 1024, 1025])
def test_long_runs(length: int) -> None:
    a = torch.randn(length, 2, generator=torch.Generator().manual_seed(length))
    _agree(aten.cumsum.default, a.double(), 0)
    _agree(aten.cummax.default, a, 0)


def _tensor_and_dim(data: st.DataObject) -> tuple[torch.Tensor, int]:
    a = data.draw(tensors(data.draw(shapes), data.draw(st.sampled_from(DTYPES))))
    return a, data.draw(_dims(a))


def _dims(a: torch.Tensor) -> st.SearchStrategy[int]:
    rank = max(a.dim(), 1)
    return st.integers(-rank, rank - 1)


def _agree(overload: Any, *arguments: Any, **named: Any) -> None:
    with on_the_cpu():
        compiled = calls.call(overload, *arguments, **named)
    expected = overload(*arguments, **named)
    if isinstance(expected, torch.Tensor):
        compiled, expected = [compiled], [expected]
    for ours, theirs in zip(compiled, expected, strict=True):
        same_layout(ours, theirs)
