"""Attention of any shape: masks, causal masks, grouped queries, forward and backward."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from .drawn import FEW, agrees, random

DTYPES = st.sampled_from([torch.float32, torch.bfloat16, torch.float16])


@st.composite
def operands(draw: st.DrawFn) -> list[torch.Tensor]:
    """Queries, keys and values [batch, heads, positions, channels]."""
    dtype = draw(DTYPES)
    batch, heads, queries, keys, channels = (draw(st.integers(1, n)) for n in (2, 3, 5, 5, 4))
    shapes = [[queries, channels], [keys, channels], [keys, channels]]
    return [random([batch, heads, *s], dtype, seed=i) for i, s in enumerate(shapes)]


@FEW
@given(operands(), st.booleans(), st.sampled_from([None, 0.5, 2.0]))
def test_causal_or_not(drawn, is_causal, scale):
    agrees(scaled_dot_product_attention, *drawn, is_causal=is_causal, scale=scale)


@FEW
@given(operands(), st.data())
def test_a_mask_says_which_keys_count(drawn, data):
    query, key, _ = drawn
    whole = [*query.shape[:-1], key.shape[-2]]
    shape = [data.draw(st.sampled_from([1, n])) for n in whole[:-2]] + whole[-2:]
    generator = torch.Generator().manual_seed(0)
    mask = torch.rand(shape, generator=generator) > data.draw(st.sampled_from([0.2, 0.5, 1.0]))
    agrees(scaled_dot_product_attention, *drawn, attn_mask=mask.to("neuron"))


@FEW
@given(operands(), st.booleans())
def test_a_bias_is_added_to_the_scores(drawn, needs_gradient):
    query, key, _ = drawn
    bias = random([*query.shape[:-1], key.shape[-2]], query.dtype, seed=3)
    agrees(
        scaled_dot_product_attention, *drawn, attn_mask=bias.detach().requires_grad_(needs_gradient)
    )


@settings(FEW, max_examples=3)
@given(
    st.integers(1, 2),
    st.integers(1, 2),
    st.integers(2, 3),
    st.integers(1, 4),
    st.booleans(),
    DTYPES,
)
def test_queries_share_keys(batch, key_heads, group, positions, is_causal, dtype):
    query = random([batch, key_heads * group, positions, 4], dtype)
    key, value = (random([batch, key_heads, positions, 4], dtype, seed=i) for i in (1, 2))
    agrees(scaled_dot_product_attention, query, key, value, is_causal=is_causal, enable_gqa=True)
