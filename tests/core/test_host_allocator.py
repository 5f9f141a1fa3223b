"""Pinned host memory."""

import resource

import pytest
import torch

from tests.python_process import output_of
from torch_trainium.neuron import memory

PAGE = 4096


def test_pinned_tensor_is_a_cpu_tensor_in_pinned_memory():
    tensor = torch.arange(1000).pin_memory()
    assert tensor.device.type == "cpu"
    assert tensor.is_pinned()
    assert tensor[10:].is_pinned()
    assert tensor.tolist() == list(range(1000))


def test_ordinary_tensor_is_not_pinned():
    assert not torch.arange(1000).is_pinned()
    assert not torch.arange(1000, device="neuron").is_pinned()


def test_factory_argument():
    assert torch.empty(10, pin_memory=True).is_pinned()


def test_freed_memory_is_used_again():
    first = torch.empty(5000, pin_memory=True)
    address = first.data_ptr()
    del first
    assert torch.empty(5000, pin_memory=True).data_ptr() == address


def test_memory_read_by_a_copy_waits_for_its_stream():
    side = torch.Stream("neuron")
    source = torch.ones(1 << 20, pin_memory=True)
    with side:
        on_device = source.to("neuron", non_blocking=True)
    del source
    side.synchronize()
    assert torch.equal(on_device.cpu(), torch.ones(1 << 20))


def test_statistics():
    memory.empty_host_cache()
    before = memory.host_memory_stats()
    tensor = torch.empty(3 * PAGE, dtype=torch.uint8, pin_memory=True)
    during = memory.host_memory_stats()
    # Blocks are powers of two.
    assert during["active_bytes.current"] == before["active_bytes.current"] + 4 * PAGE
    assert during["num_host_alloc"] == before["num_host_alloc"] + 1
    assert during["host_alloc_time.count"] == before["host_alloc_time.count"] + 1
    del tensor
    assert memory.host_memory_stats()["active_bytes.current"] == before["active_bytes.current"]
    memory.empty_host_cache()
    after = memory.host_memory_stats()
    assert after["allocated_bytes.current"] == before["allocated_bytes.current"]
    memory.reset_peak_host_memory_stats()
    memory.reset_accumulated_host_memory_stats()
    assert memory.host_memory_stats()["allocated_bytes.allocated"] == 0


def test_pinned_memory_is_locked_up_to_the_limit():
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_MEMLOCK, (16 * {PAGE}, 16 * {PAGE}))
import torch, torch_trainium
from torch_trainium.neuron import memory
small = torch.empty(8 * {PAGE}, dtype=torch.uint8, pin_memory=True)
large = torch.empty(64 * {PAGE}, dtype=torch.uint8, pin_memory=True)
print(memory.host_memory_stats()["locked_bytes"], small.is_pinned(), large.is_pinned())
"""
    locked, small, large = output_of(code).split()
    assert (small, large) == ("True", "True")
    # A process with CAP_IPC_LOCK has no limit.
    assert int(locked) in (8 * PAGE, 72 * PAGE)
    assert resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] != 16 * PAGE


@pytest.mark.parametrize("size", [0, 1, PAGE + 1])
def test_any_size(size):
    assert torch.empty(size, dtype=torch.uint8, pin_memory=True).numel() == size
