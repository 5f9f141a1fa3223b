"""Device indices, the current device and `torch.accelerator`."""

import pytest
import torch


def _module(device: str):
    return torch.get_device_module(device)


def test_accelerator_names_this_device(device: str) -> None:
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device(device)
    assert torch.accelerator.device_count() == _module(device).device_count() > 0


def test_set_device_changes_the_current_device(device: str) -> None:
    last = _module(device).device_count() - 1
    _module(device).set_device(last)
    assert _module(device).current_device() == last
    assert torch.accelerator.current_device_index() == last
    assert torch.empty(1, device=device).device.index == last
    torch.accelerator.set_device_index(0)
    assert _module(device).current_device() == 0


def test_device_context_restores_after_an_exception(device: str) -> None:
    with pytest.raises(ValueError, match="leave"), _module(device).device(1):
        assert torch.empty(1, device=device).device.index == 1
        raise ValueError("leave")
    assert _module(device).current_device() == 0
    with torch.accelerator.device_index(1):
        assert _module(device).current_device() == 1
    assert _module(device).current_device() == 0


def test_device_of_a_tensor(device: str) -> None:
    tensor = torch.empty(1, device=f"{device}:1")
    with _module(device).device_of(tensor):
        assert _module(device).current_device() == 1
    assert tensor.get_device() == 1
    assert torch.empty(1).get_device() == -1


def test_an_index_above_the_count_is_refused(device: str) -> None:
    count = _module(device).device_count()
    for index in (count, count + 5, 127):
        with pytest.raises(RuntimeError, match=str(index)):
            torch.ones(1, device=f"{device}:{index}")
        with pytest.raises(RuntimeError):
            _module(device).set_device(index)
    assert torch.ones(1, device=device).item() == 1


def test_negative_indices_are_refused(device: str) -> None:
    with pytest.raises(RuntimeError):
        torch.device(f"{device}:-1")


def test_device_as_a_context_is_the_default(device: str) -> None:
    with torch.device(device):
        assert torch.ones(2).device.type == device
        assert torch.arange(3).device.type == device
        assert torch.nn.Linear(2, 2).weight.device.type == device
    assert torch.ones(2).device.type == "cpu"


def test_set_default_device(device: str) -> None:
    torch.set_default_device(device)
    try:
        assert torch.zeros(2).device.type == device
        assert torch.tensor([1.0]).device.type == device
    finally:
        torch.set_default_device(None)


def test_properties_describe_the_device(device: str) -> None:
    module = _module(device)
    properties = module.get_device_properties(0)
    assert properties.name == module.get_device_name(0)
    assert properties.total_memory == module.mem_get_info(0)[1]
    assert torch.accelerator.get_memory_info(0)[1] == properties.total_memory


def test_capability_lists_dtypes_that_work(device: str) -> None:
    capability = torch.accelerator.get_device_capability(0)
    assert {torch.float32, torch.bfloat16, torch.int64} <= set(capability["supported_dtypes"])
    for dtype in capability["supported_dtypes"]:
        assert torch.zeros(2, dtype=dtype, device=device).dtype == dtype


def test_device_index_of_a_device_argument(device: str) -> None:
    index = _module(device)._utils._get_device_index
    assert index(torch.device(device, 1)) == 1
    assert index(2) == 2
    assert index(None, optional=True) == 0
    with pytest.raises(ValueError):
        index(torch.device("cpu"))


def test_peer_copies_between_devices(device: str) -> None:
    values = torch.randn(3, 4)
    there = values.to(f"{device}:0").to(f"{device}:1")
    assert there.device.index == 1
    assert torch.equal(there.t().to(f"{device}:0").cpu(), values.t())


def test_operands_on_two_devices_are_refused(device: str) -> None:
    first, second = torch.ones(2, device=f"{device}:0"), torch.ones(2, device=f"{device}:1")
    with pytest.raises(RuntimeError, match="same device"):
        first + second
    with pytest.raises(RuntimeError, match="same device"):
        first + torch.ones(2)
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, 2) @ torch.ones(2, 2, device=device)
    assert torch.equal((first + torch.tensor(2.0)).cpu(), torch.full((2,), 3.0))


def test_results_follow_the_device_of_the_operands(device: str) -> None:
    operand = torch.ones(2, device=f"{device}:1")
    assert (operand * 2).sum().device.index == 1
    assert torch.zeros_like(operand).device.index == 1
    assert operand.new_ones(1).device.index == 1
    assert torch.cat([operand, operand]).device.index == 1


def test_synchronize(device: str) -> None:
    torch.ones(1000, device=device).sum()
    torch.accelerator.synchronize()
    _module(device).synchronize(1)
