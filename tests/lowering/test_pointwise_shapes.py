"""Elementwise operators over shapes that broadcast, of any layout, in every form."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_trainium.eager import calls, eager_mode_is

from .compare import on_the_cpu
from .layouts import BOUNDED, copy_of, memory_of, operands, same_layout, shapes, tensors

aten = torch.ops.aten

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)
BINARY = (
    aten.add.Tensor,
    aten.mul.Tensor,
    aten.div.Tensor,
    aten.maximum.default,
    aten.eq.Tensor,
    aten.lt.Tensor,
    aten.atan2.default,
)
IN_PLACE = (aten.add_.Tensor, aten.mul_.Tensor, aten.logical_and_.default, aten.ge_.Tensor)
OUT = (aten.add.out, aten.mul.out, aten.minimum.out, aten.ne.Tensor_out)


@BOUNDED
@given(st.data())
def test_two_operands_broadcast(data: st.DataObject) -> None:
    shape, overload = data.draw(shapes), data.draw(st.sampled_from(BINARY))
    a, b = (data.draw(operands(shape, data.draw(st.sampled_from(DTYPES)))) for _ in range(2))
    _agree(overload, a, b)


@BOUNDED
@given(st.data())
def test_three_operands_broadcast(data: st.DataObject) -> None:
    shape = data.draw(shapes)
    condition = data.draw(operands(shape, torch.bool))
    a, b = (data.draw(operands(shape, torch.float32)) for _ in range(2))
    _agree(aten.where.self, condition, a, b)
    _agree(aten.addcmul.default, a, b, condition.to(torch.float32))
    _agree(aten.clamp.Tensor, a, b, None)


@BOUNDED
@given(st.data())
def test_written_operands_keep_what_lies_between_their_elements(data: st.DataObject) -> None:
    shape, overload = data.draw(shapes), data.draw(st.sampled_from(IN_PLACE))
    target = data.draw(tensors(shape, torch.float32))
    other = data.draw(operands(shape, data.draw(st.sampled_from(DTYPES))))
    compiled = copy_of(target)
    with on_the_cpu():
        calls.call(overload, compiled, other)
    overload(target, other)
    same_layout(memory_of(compiled), memory_of(target))


@BOUNDED
@given(st.data())
def test_results_go_where_out_says(data: st.DataObject) -> None:
    shape, overload = data.draw(shapes), data.draw(st.sampled_from(OUT))
    a, b = (data.draw(operands(shape, torch.float32)) for _ in range(2))
    result_shape = torch.broadcast_shapes(a.shape, b.shape)
    is_empty = data.draw(st.booleans())
    dtype = torch.bool if overload is aten.ne.Tensor_out else torch.float32
    out = data.draw(tensors((0,) if is_empty else result_shape, dtype))
    compiled = copy_of(out)
    with on_the_cpu():
        returned = calls.call(overload, a, b, out=compiled)
    overload(a, b, out=out)
    assert returned is compiled
    same_layout(compiled, out)
    if not is_empty:
        same_layout(memory_of(compiled), memory_of(out))


@BOUNDED
@given(st.data())
def test_an_operand_may_be_the_one_that_is_written(data: st.DataObject) -> None:
    target = data.draw(tensors(data.draw(shapes), torch.float32))
    compiled = copy_of(target)
    with on_the_cpu():
        calls.call(aten.mul_.Tensor, compiled, compiled)
    target.mul_(target)
    same_layout(memory_of(compiled), memory_of(target))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_product_with_an_expanded_operand_lies_as_the_other(dtype: torch.dtype) -> None:
    ones, b = torch.ones(1, 1, dtype=dtype).expand(3, 2), torch.rand(2, 3).to(dtype).t()
    _agree(aten.mul.Tensor, ones, b)


def _agree(overload: Any, *arguments: Any) -> None:
    with on_the_cpu():
        compiled = calls.call(overload, *arguments)
    same_layout(compiled, overload(*arguments))


@pytest.mark.parametrize("other", [2, torch.tensor([1, 2, 0], dtype=torch.int32)], ids=str)
def test_shifts_in_place_are_programs(other):
    numbers = torch.tensor([1, 2, -3], dtype=torch.int32)

    def shifted(a, b):
        a <<= b
        a >>= 1
        return a

    with eager_mode_is("compiled"), torch.neuron.fallback_is("error"):
        given = other.to("neuron") if isinstance(other, torch.Tensor) else other
        ours = shifted(numbers.to("neuron"), given)
    assert torch.equal(ours.cpu(), shifted(numbers.clone(), other))
