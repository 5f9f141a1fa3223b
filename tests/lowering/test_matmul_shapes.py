"""Products of tensors of any rank, with broadcast batches and transposed operands."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from .drawn import FEW, agrees, random

DTYPES = st.sampled_from([torch.float32, torch.bfloat16, torch.float16])
LENGTHS = st.integers(0, 4)


@st.composite
def operands(draw: st.DrawFn) -> tuple[list[int], list[int], bool, bool]:
    """Two shapes whose batches broadcast, and whether each operand lies transposed."""
    rows, inner, columns = (draw(LENGTHS) for _ in range(3))
    batch = draw(st.lists(st.integers(1, 3), max_size=2))
    shapes = []
    for core, vector in (([rows, inner], [inner]), ([inner, columns], [inner])):
        if draw(st.booleans()):
            shapes.append(vector)
            continue
        kept = batch[draw(st.integers(0, len(batch))) :]
        shapes.append([*(draw(st.sampled_from([1, n])) for n in kept), *core])
    return shapes[0], shapes[1], draw(st.booleans()), draw(st.booleans())


def laid_out(shape: list[int], dtype: torch.dtype, *, is_transposed: bool) -> torch.Tensor:
    if not is_transposed or len(shape) < 2:
        return random(shape, dtype)
    return random([*shape[:-2], shape[-1], shape[-2]], dtype).mT


@FEW
@given(operands(), DTYPES)
def test_batches_broadcast(drawn, dtype):
    left, right, left_transposed, right_transposed = drawn
    agrees(
        torch.matmul,
        laid_out(left, dtype, is_transposed=left_transposed),
        laid_out(right, dtype, is_transposed=right_transposed),
    )


@FEW
@given(
    lengths=st.tuples(LENGTHS, LENGTHS, LENGTHS),
    bias=st.sampled_from([(1, 1), (0, 1), (1, 0), (0, 0)]),
    beta=st.sampled_from([0, 1, 0.5]),
    alpha=st.sampled_from([0, 1, -2.0]),
    dtype=DTYPES,
)
def test_a_bias_broadcasts(lengths, bias, beta, alpha, dtype):
    rows, inner, columns = lengths
    shape = [n if is_whole else 1 for n, is_whole in zip((rows, columns), bias, strict=True)]
    left, right = random([rows, inner], dtype), random([inner, columns], dtype)
    agrees(torch.addmm, random(shape, dtype), left, right, beta=beta, alpha=alpha)


@FEW
@given(st.lists(LENGTHS, max_size=2), LENGTHS, LENGTHS, st.booleans(), DTYPES)
def test_linear_layers_take_any_batch(batch, inputs, outputs, has_bias, dtype):
    weight = random([outputs, inputs], dtype, seed=1)
    bias = random([outputs], dtype, seed=2) if has_bias else None
    agrees(torch.nn.functional.linear, random([*batch, inputs], dtype), weight, bias)
