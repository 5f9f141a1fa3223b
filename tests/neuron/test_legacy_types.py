"""Types of tensors in the shape of classes."""

import pytest
import torch

DTYPES = {
    "BFloat16Tensor": torch.bfloat16,
    "BoolTensor": torch.bool,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "DoubleTensor": torch.float64,
    "FloatTensor": torch.float32,
    "HalfTensor": torch.float16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "ShortTensor": torch.int16,
}


@pytest.mark.parametrize(("name", "dtype"), DTYPES.items())
def test_type_is_named_constructs_and_converts(name: str, dtype: torch.dtype) -> None:
    cls = getattr(torch.neuron, name)
    tensor = torch.zeros(2, dtype=dtype, device="neuron")
    assert tensor.type() == f"torch.neuron.{name}"
    assert isinstance(tensor, cls)
    assert not isinstance(tensor.cpu(), cls)
    for converted in (torch.ones(2).type(cls), torch.ones(2).type(f"torch.neuron.{name}")):
        assert converted.dtype == dtype
        assert converted.device.type == "neuron"
    assert cls([1, 0]).tolist() == [1, 0]
    assert cls(2, 3).shape == cls(torch.Size([2, 3])).shape == (2, 3)
    assert cls().numel() == 0


def test_other_dtype_is_not_an_instance() -> None:
    assert not isinstance(torch.zeros(2, device="neuron"), torch.neuron.HalfTensor)
    assert not isinstance(3, torch.neuron.FloatTensor)
