"""DLPack: the same memory under another tensor object."""

import pytest
import torch
from torch.utils import dlpack


def test_device_is_an_extension_device_with_our_index() -> None:
    tensor = torch.ones(2, device="neuron:2")
    assert tensor.__dlpack_device__() == (dlpack.DLDeviceType.kDLExtDev, 2)
    assert torch.ones(2).__dlpack_device__() == (dlpack.DLDeviceType.kDLCPU, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.complex64])
def test_round_trip_shares_memory(dtype: torch.dtype) -> None:
    tensor = torch.zeros(3, 4, dtype=dtype, device="neuron:1")[:, ::2]
    other = torch.from_dlpack(tensor)
    assert other.device == tensor.device
    assert other.data_ptr() == tensor.data_ptr()
    assert other.stride() == tensor.stride()
    other.fill_(1)
    assert torch.equal(tensor, torch.ones_like(tensor))


def test_capsule_shares_memory_and_keeps_it_alive() -> None:
    tensor = torch.arange(5, device="neuron")
    capsule = dlpack.to_dlpack(tensor)
    del tensor
    assert dlpack.from_dlpack(capsule).tolist() == [0, 1, 2, 3, 4]


def test_other_device_is_a_copy() -> None:
    host = torch.arange(3.0)
    on_device = torch.from_dlpack(host, device="neuron:1")
    assert on_device.device == torch.device("neuron:1")
    back = torch.from_dlpack(on_device, device="cpu")
    assert torch.equal(back, host)


def test_copy_flag_is_honoured() -> None:
    tensor = torch.ones(2, device="neuron")
    assert torch.from_dlpack(tensor, copy=True).data_ptr() != tensor.data_ptr()
    with pytest.raises(ValueError, match="without copying"):
        torch.from_dlpack(tensor, device="cpu", copy=False)


def test_what_dlpack_cannot_carry_is_refused() -> None:
    with pytest.raises(BufferError, match="require gradient"):
        torch.from_dlpack(torch.ones(2, device="neuron", requires_grad=True))
    with pytest.raises(BufferError, match="conjugate"):
        torch.from_dlpack(torch.ones(2, dtype=torch.complex64, device="neuron").conj())


def test_numpy_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="neuron"):
        torch.ones(2, device="neuron").numpy()


def test_subclass_keeps_its_say() -> None:
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    calls: list[str] = []
    tensor = torch.ones(1, device="neuron").as_subclass(Loud)
    assert tensor.__dlpack_device__()[0] == dlpack.DLDeviceType.kDLExtDev
    assert "__dlpack_device__" in calls
