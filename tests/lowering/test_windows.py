"""Tensors of any strides, as operands and as results."""

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torch_trainium.eager import calls

from .compare import on_the_cpu

aten = torch.ops.aten


@st.composite
def windows(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    """Sizes, strides and offset of a tensor whose elements do not overlap."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    order = draw(st.permutations(range(len(sizes))))
    strides, step = [0] * len(sizes), draw(st.integers(1, 3))
    for d in order:
        strides[d] = step
        step *= sizes[d] + draw(st.integers(0, 2))
    return sizes, strides, draw(st.integers(0, 5))


def laid_out(sizes: list[int], strides: list[int], offset: int) -> torch.Tensor:
    reach = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) + 1
    return torch.arange(reach + 3.0).as_strided(sizes, strides, offset)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(windows())
def test_a_strided_operand_is_read_where_its_elements_are(window):
    tensor = laid_out(*window)
    with on_the_cpu():
        torch.testing.assert_close(calls.call(aten.neg.default, tensor), -tensor)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(windows())
def test_a_write_changes_nothing_between_the_elements(window):
    tensor, expected = laid_out(*window), laid_out(*window)
    with on_the_cpu():
        calls.call(aten.add_.Scalar, tensor, 10)
    expected += 10
    size = (tensor.untyped_storage().nbytes() // 4,)
    torch.testing.assert_close(tensor.as_strided(size, (1,), 0), expected.as_strided(size, (1,), 0))


def test_a_broadcast_operand_is_read():
    tensor = torch.arange(3.0).expand(4, 3)
    with on_the_cpu():
        torch.testing.assert_close(calls.call(aten.exp.default, tensor), tensor.exp())


def test_results_have_pytorchs_strides():
    tensor = torch.randn(2, 3, 4).permute(2, 0, 1)
    with on_the_cpu():
        assert calls.call(aten.neg.default, tensor).stride() == torch.neg(tensor).stride()
