"""torch.neuron's memory functions, beside those of torch.cuda and torch.accelerator."""

import inspect
import re

import pytest
import torch

from torch_trainium.neuron import memory
from torch_trainium.neuron.memory_summary import format_bytes, format_count

MIB = 2**20


def empty(mebibytes, device="neuron"):
    return torch.empty(int(mebibytes * MIB), dtype=torch.uint8, device=device)


def test_statistics_have_the_keys_torch_cuda_documents():
    empty(1)
    stats = memory.memory_stats()
    documented = inspect.getdoc(torch.cuda.memory_stats)
    for metric, pools, values in re.findall(r'``"(\w+)\.\{(.*?)\}\.\{(.*?)\}"``', documented):
        # The documentation says "allocated" where the key is "allocation".
        name = "allocation" if metric == "allocated" else metric
        for pool in pools.split(","):
            for value in values.split(","):
                assert isinstance(stats[f"{name}.{pool}.{value}"], int)
    counters = re.findall(r'``"(num_\w+|max_split_size)"``', documented)
    assert len(counters) >= 5
    for counter in counters:
        assert isinstance(stats[counter], int)


def test_statistics_agree_with_torch_accelerator():
    tensor = empty(3)
    theirs = torch.accelerator.memory_stats()
    ours = memory.memory_stats()
    assert {key: ours[key] for key in theirs if key in ours} == theirs
    assert memory.memory_allocated() == torch.accelerator.memory_allocated()
    assert memory.max_memory_allocated() == torch.accelerator.max_memory_allocated()
    assert memory.memory_reserved() == torch.accelerator.memory_reserved()
    assert memory.max_memory_reserved() == torch.accelerator.max_memory_reserved()
    assert memory.mem_get_info() == torch.accelerator.get_memory_info()
    del tensor


def test_allocation_and_peak():
    before = memory.memory_allocated()
    memory.reset_peak_memory_stats()
    tensor = empty(3)
    assert memory.memory_allocated() == before + 3 * MIB
    del tensor
    assert memory.memory_allocated() == before
    assert memory.max_memory_allocated() == before + 3 * MIB
    memory.reset_peak_memory_stats()
    assert memory.max_memory_allocated() == before


def test_accumulated_totals_start_again():
    empty(3)
    memory.reset_accumulated_memory_stats()
    assert memory.memory_stats()["allocated_bytes.all.allocated"] == 0
    empty(3)
    stats = memory.memory_stats()
    assert stats["allocated_bytes.large_pool.allocated"] == 3 * MIB
    assert stats["allocated_bytes.large_pool.freed"] == 3 * MIB


@pytest.mark.parametrize("device", [2, "neuron:2", torch.device("neuron", 2)])
def test_device_arguments(device):
    before = memory.memory_allocated(device)
    tensor = empty(3, device="neuron:2")
    assert memory.memory_allocated(device) == before + 3 * MIB
    with torch.neuron.device(2):
        assert memory.memory_allocated() == before + 3 * MIB
    del tensor


def test_missing_device_is_refused():
    with pytest.raises(RuntimeError, match="Invalid neuron device index"):
        memory.memory_stats(99)
    with pytest.raises(ValueError, match="Expected a neuron device"):
        memory.memory_stats("cpu")


def test_empty_cache_gives_memory_back():
    keep = empty(20)
    tensor = empty(64)
    free, total = memory.mem_get_info()
    assert total == 24 * 2**30
    del tensor
    assert memory.mem_get_info()[0] == free
    memory.empty_cache()
    assert memory.mem_get_info()[0] >= free + 64 * MIB
    assert memory.memory_reserved() >= keep.numel()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("memory_cached", "memory_reserved"),
        ("max_memory_cached", "max_memory_reserved"),
        ("reset_max_memory_allocated", "reset_peak_memory_stats"),
        ("reset_max_memory_cached", "reset_peak_memory_stats"),
    ],
)
def test_old_names_warn(old, new):
    with pytest.warns(FutureWarning, match=f"torch.neuron.{new}"):
        assert getattr(memory, old)() == getattr(memory, new)()


def test_memory_fraction():
    assert memory.get_per_process_memory_fraction(3) == 1.0
    memory.set_per_process_memory_fraction(0.25, 3)
    try:
        assert memory.get_per_process_memory_fraction("neuron:3") == 0.25
        with pytest.raises(torch.OutOfMemoryError, match=r"may reserve 6\.00 GiB"):
            empty(7 * 1024, device="neuron:3")
    finally:
        memory.set_per_process_memory_fraction(1.0, 3)


@pytest.mark.parametrize(
    ("fraction", "error"), [(1.5, ValueError), (-0.1, ValueError), (1, TypeError)]
)
def test_bad_memory_fraction(fraction, error):
    with pytest.raises(error, match="Invalid"):
        memory.set_per_process_memory_fraction(fraction)


def test_raw_allocation():
    before = memory.memory_allocated()
    side = torch.Stream("neuron")
    address = memory.caching_allocator_alloc(1000, stream=side)
    assert memory.memory_allocated() == before + 1024
    streams = {b["address"]: s["stream"] for s in memory.memory_snapshot() for b in s["blocks"]}
    assert streams[address] == side.stream_id
    memory.caching_allocator_delete(address)
    assert memory.memory_allocated() == before
    with pytest.raises(ValueError, match="deleted already"):
        memory.caching_allocator_delete(address)


def test_summary_has_the_shape_of_torch_cuda():
    tensor = empty(300)
    table = memory.memory_summary().splitlines()
    assert {len(line) for line in table} == {77}
    assert len(table) == 6 + 9 * 4 + 2 * 2 + 1
    row = next(line for line in table if "Allocated memory" in line)
    assert re.fullmatch(r"\| Allocated memory      \|( +\d+ (B  |KiB|MiB|GiB) \|){4}", row)
    assert len(memory.memory_summary(abbreviated=True).splitlines()) == 6 + 9 * 2 + 2 * 2 + 1
    del tensor


def test_summary_units():
    assert format_bytes(100, 100) == "   100 B  "
    assert format_bytes(3 * MIB, 3 * MIB) == "  3072 KiB"
    assert format_bytes(0, 2**40) == "     0 GiB"
    assert format_count(12, 12) == "     12   "
    assert format_count(2_000_000, 2_000_000) == "   2000 K "


def test_processes_and_backend():
    tensor = empty(64)
    assert re.fullmatch(
        r"neuron:0\nprocess +\d+ uses +\d+\.\d+ MB neuron memory", memory.list_gpu_processes()
    )
    assert memory.get_allocator_backend() == "native"
    del tensor


def test_every_name_is_in_torch_neuron():
    assert [name for name in memory.__all__ if not hasattr(torch.neuron, name)] == []
