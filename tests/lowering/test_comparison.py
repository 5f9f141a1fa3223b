"""Comparisons that the host reads."""

import pytest
import torch

from torch_trainium.eager import calls

from .compare import on_the_cpu

aten = torch.ops.aten


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_equal_is_a_python_bool(dtype):
    a = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(dtype)
    other = a.clone()
    other[1, 1] = 1
    with on_the_cpu():
        assert calls.call(aten.equal.default, a, a.t().contiguous().t()) is True
        assert calls.call(aten.equal.default, a, other) is False


def test_equal_of_other_shapes_empty_tensors_and_nan():
    nan = torch.tensor([1.0, float("nan")])
    with on_the_cpu():
        assert calls.call(aten.equal.default, torch.ones(2), torch.ones(2, 1)) is False
        assert calls.call(aten.equal.default, torch.ones(0, 3), torch.ones(0, 3)) is True
        assert calls.call(aten.equal.default, nan, nan.clone()) is False
        assert calls.call(aten.equal.default, torch.tensor(0.0), torch.tensor(-0.0)) is True
