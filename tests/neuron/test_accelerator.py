"""Every public function of torch.accelerator."""

import pytest
import torch

DEVICE = torch.device("neuron:1")
TESTED = {
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "empty_host_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
}
NOT_APPLICABLE = {
    "Graph": "the device captures no graphs: operators run to their end before the next starts",
    "random": "delegates to torch.random; new in 2.14",
}


@pytest.fixture(autouse=True)
def restore():
    yield
    torch.neuron.set_device(0)
    torch.neuron.set_stream(torch.neuron.default_stream(0))


def test_this_file_covers_every_public_function() -> None:
    assert set(torch.accelerator.__all__) <= TESTED | NOT_APPLICABLE.keys()


def test_current_accelerator_is_neuron() -> None:
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("neuron")
    assert torch.accelerator.current_accelerator(check_available=True).type == "neuron"
    assert torch.accelerator.device_count() == torch.neuron.device_count()


def test_device_index_functions() -> None:
    torch.accelerator.set_device_index(2)
    assert torch.accelerator.current_device_index() == 2
    with torch.accelerator.device_index(3):
        assert torch.neuron.current_device() == 3
    with torch.accelerator.device_index(None):
        assert torch.neuron.current_device() == 2
    assert torch.accelerator.current_device_index() == 2


def test_deprecated_names_still_work() -> None:
    with pytest.warns(FutureWarning):
        torch.accelerator.set_device_idx(1)
    with pytest.warns(FutureWarning):
        assert torch.accelerator.current_device_idx() == 1


def test_missing_device_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Invalid neuron device index"):
        torch.accelerator.set_device_index(4)


def test_capability_lists_the_dtypes_that_work() -> None:
    dtypes = torch.accelerator.get_device_capability(DEVICE)["supported_dtypes"]
    assert {torch.float32, torch.bfloat16, torch.int64, torch.bool} <= dtypes


def test_streams() -> None:
    stream = torch.Stream(DEVICE)
    torch.accelerator.set_stream(stream)
    assert torch.accelerator.current_stream() == stream
    assert torch.accelerator.current_device_index() == 1
    torch.accelerator.synchronize()
    torch.accelerator.synchronize(DEVICE)


def test_memory_functions_follow_an_allocation() -> None:
    torch.accelerator.empty_cache()
    torch.accelerator.empty_host_cache()
    torch.accelerator.reset_peak_memory_stats(DEVICE)
    torch.accelerator.reset_accumulated_memory_stats(DEVICE)
    before = torch.accelerator.memory_allocated(DEVICE)
    free_before, total = torch.accelerator.get_memory_info(DEVICE)
    tensor = torch.empty(32 * 2**20, dtype=torch.uint8, device=DEVICE)
    assert torch.accelerator.memory_allocated(DEVICE) == before + tensor.nbytes
    assert torch.accelerator.memory_reserved(DEVICE) >= tensor.nbytes
    assert torch.accelerator.get_memory_info(DEVICE)[0] <= free_before - tensor.nbytes
    assert total == torch.neuron.get_device_properties(DEVICE).total_memory
    del tensor
    assert torch.accelerator.memory_allocated(DEVICE) == before
    assert torch.accelerator.max_memory_allocated(DEVICE) >= before + 32 * 2**20
    assert torch.accelerator.max_memory_reserved(DEVICE) >= 32 * 2**20
    assert torch.accelerator.memory_stats(DEVICE)["allocation.all.allocated"] == 1
