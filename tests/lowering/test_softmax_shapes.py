"""Softmax along any dimension of any shape, forward and backward."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from .drawn import FEW, agrees, random

DTYPES = st.sampled_from([torch.float32, torch.bfloat16, torch.float16])


@st.composite
def shapes_and_dims(draw: st.DrawFn) -> tuple[list[int], int]:
    shape = draw(st.lists(st.integers(0, 5), max_size=4))
    bound = max(len(shape), 1)
    return shape, draw(st.integers(-bound, bound - 1))


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax, F.softmin])
@FEW
@given(shapes_and_dims(), DTYPES)
def test_shares_along_a_dimension(function, shape_and_dim, dtype):
    shape, dim = shape_and_dim
    agrees(function, random(shape, dtype), dim)


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
def test_infinities_and_nan_are_the_cpus(function):
    rows = [[0.0, math.inf, 1.0], [-math.inf] * 3, [0.0, math.nan, 1.0], [1e30, -1e30, 0.0]]
    agrees(function, torch.tensor(rows, device="neuron"), 1)


@FEW
@given(shapes_and_dims())
def test_rows_without_anything_to_choose_from_are_zero(shape_and_dim):
    shape, dim = shape_and_dim
    numbers = random(shape).detach()
    if numbers.numel():
        numbers.select(dim, 0).fill_(-math.inf) if shape else numbers.fill_(-math.inf)
    agrees(torch.ops.aten._safe_softmax, numbers, dim)
