"""Normalizations of any shape, with and without parameters, forward and backward."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from .drawn import FEW, agrees, random

aten = torch.ops.aten

DTYPES = st.sampled_from([torch.float32, torch.bfloat16, torch.float16])
PARAMETERS = st.sampled_from([(False, False), (True, False), (True, True)])


def parameters(shape, dtype, which):
    return [random(shape, dtype, seed=i + 1) if has else None for i, has in enumerate(which)]


@FEW
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data(), PARAMETERS, DTYPES)
def test_layers(shape, data, which, dtype):
    count = data.draw(st.integers(1, len(shape)))
    last = shape[-count:]
    agrees(F.layer_norm, random(shape, dtype), last, *parameters(last, dtype, which))


@FEW
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data(), st.booleans(), DTYPES)
def test_root_mean_squares(shape, data, has_weight, dtype):
    count = data.draw(st.integers(1, len(shape)))
    last = shape[-count:]
    weight = random(last, dtype, seed=1) if has_weight else None
    agrees(F.rms_norm, random(shape, dtype), last, weight)


@FEW
@given(
    st.integers(2, 3),
    st.integers(1, 3),
    st.integers(1, 3),
    st.lists(st.integers(1, 3), max_size=2),
    PARAMETERS,
    DTYPES,
)
def test_groups(samples, groups, width, pixels, which, dtype):
    channels = groups * width
    numbers = random([samples, channels, *pixels], dtype)
    agrees(F.group_norm, numbers, groups, *parameters([channels], dtype, which))


@FEW
@given(
    st.integers(2, 3),
    st.integers(1, 4),
    st.lists(st.integers(1, 3), max_size=3),
    PARAMETERS,
    st.booleans(),
    DTYPES,
)
def test_batches(samples, channels, pixels, which, is_training, dtype):
    numbers = random([samples, channels, *pixels], dtype)
    running = [random([channels], dtype, seed=i).detach().abs() for i in (3, 4)]
    rows = parameters([channels], dtype, which)
    agrees(F.batch_norm, numbers, *running, *rows, training=is_training)


@FEW
@given(st.integers(2, 3), st.integers(1, 3), st.booleans())
def test_channels_last(samples, channels, is_training):
    numbers = random([samples, channels, 2, 3]).detach().to(memory_format=torch.channels_last)
    running = [random([channels], seed=i).detach().abs() for i in (3, 4)]
    agrees(F.batch_norm, numbers.requires_grad_(), *running, training=is_training)


@pytest.mark.parametrize("has_statistics", [True, False])
def test_batches_into_given_results(has_statistics):
    numbers = random([4, 3, 2]).detach()
    running = [torch.ones(3, device="neuron") if has_statistics else None for _ in range(2)]
    names = ("out", "save_mean", "save_invstd")
    results = {name: torch.empty(0, device="neuron") for name in names}
    agrees(aten.native_batch_norm.out, numbers, None, None, *running, True, 0.5, 1e-5, **results)
