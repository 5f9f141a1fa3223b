"""The names that PyTorch's core looks up in the module of a renamed PrivateUse1 backend."""

import types

import pytest
import torch

_NAMES = [
    "is_available",
    "device_count",
    "current_device",
    "set_device",
    "device",
    "device_of",
    "get_device_properties",
    "get_device_name",
    "get_device_capability",
    "is_initialized",
    "_lazy_init",
    "_is_in_bad_fork",
    "manual_seed_all",
    "manual_seed",
    "initial_seed",
    "get_rng_state",
    "set_rng_state",
    "default_generators",
    "stream",
    "current_stream",
    "default_stream",
    "set_stream",
    "Stream",
    "Event",
    "synchronize",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "empty_cache",
    "mem_get_info",
    "get_amp_supported_dtype",
    "is_bf16_supported",
    "amp",
]


def test_the_module_has_every_name_core_asks_for(device: str) -> None:
    module = getattr(torch, device)
    assert [name for name in _NAMES if not hasattr(module, name)] == []


def test_the_backend_is_renamed_once(device: str) -> None:
    assert torch._C._get_privateuse1_backend_name() == device
    torch.utils.rename_privateuse1_backend(device)
    with pytest.raises(RuntimeError, match="has already been set"):
        torch.utils.rename_privateuse1_backend("other")


def test_the_module_is_registered_once(device: str) -> None:
    with pytest.raises(RuntimeError, match="The runtime module of"):
        torch._register_device_module(device, types.ModuleType("other"))


def test_core_finds_functions_by_name(device: str) -> None:
    find = torch.utils.backend_registration._get_custom_mod_func
    assert find("device_count")() == torch.accelerator.device_count()
    with pytest.raises(RuntimeError, match=f"torch.{device}"):
        find("no_such_function")


def test_enumerations_carry_the_name(device: str) -> None:
    from torch._C._autograd import DeviceType
    from torch._C._profiler import ProfilerActivity

    assert getattr(ProfilerActivity, device.upper()) == ProfilerActivity.PrivateUse1
    assert getattr(DeviceType, device.upper()) == DeviceType.PrivateUse1


def test_generated_methods_move_tensors(device: str) -> None:
    tensor = torch.randn(2, 3)
    assert not getattr(tensor, f"is_{device}")
    moved = getattr(tensor, device)()
    assert getattr(moved, f"is_{device}")
    assert getattr(tensor, device)(1).device.index == 1
    assert getattr(tensor, device)(torch.device(device, 1)).device.index == 1
    assert torch.equal(moved.cpu(), tensor)


def test_generated_methods_move_modules_storages_and_sequences(device: str) -> None:
    layer = getattr(torch.nn.Linear(2, 3), device)()
    assert {parameter.device.type for parameter in layer.parameters()} == {device}
    storage = getattr(torch.ones(4).untyped_storage(), device)()
    assert storage.device.type == device
    assert getattr(storage, f"is_{device}")
    sequence = torch.nn.utils.rnn.PackedSequence(torch.rand(5, 3), torch.ones(5).long())
    assert getattr(getattr(sequence, device)(), f"is_{device}")


def test_legacy_type_strings(device: str) -> None:
    for dtype, name in {
        torch.float32: "FloatTensor",
        torch.bool: "BoolTensor",
        torch.int64: "LongTensor",
        torch.bfloat16: "BFloat16Tensor",
    }.items():
        tensor = torch.empty(2, dtype=dtype, device=device)
        assert tensor.type() == f"torch.{device}.{name}"
        assert torch.empty(2, dtype=dtype).type(tensor.type()).device.type == device


def test_fake_tensors_keep_the_device(device: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        result = torch.empty(3, 3, device=device) + torch.empty(3, 3, device=f"{device}:0")
        assert result.device.type == device
        assert result.shape == (3, 3)
    with FakeTensorMode() as mode:
        assert mode.from_tensor(torch.ones(2, device=device)).device.type == device
