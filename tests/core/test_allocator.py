"""Device memory as tensors see it: reuse, limits, errors, threads, processes."""

import gc
import re
import threading
from pathlib import Path

import pytest
import torch

from tests.python_process import output_of, run_python
from torch_trainium.neuron import memory

MIB = 2**20


def stat(name, device=0):
    return memory.memory_stats(device)[name]


def blocks_of(tensor):
    address = tensor.untyped_storage().data_ptr()
    for segment in memory.memory_snapshot():
        for block in segment["blocks"]:
            if block["address"] == address:
                return segment, block
    raise AssertionError(f"{address:#x} is in no segment")


@pytest.fixture
def limited():
    """Device 0 with room for 64 MiB beside what other tests still hold there, whose MiB it is."""
    gc.collect()
    memory.empty_cache()
    held = memory.memory_reserved()
    total = memory.mem_get_info()[1]
    memory.set_per_process_memory_fraction((64 * MIB + held) / total)
    yield held // MIB
    memory.set_per_process_memory_fraction(1.0)
    memory.empty_cache()


def megabytes(count):
    return torch.empty(count * MIB, dtype=torch.uint8, device="neuron")


def test_freed_memory_is_used_again():
    first = torch.empty(3 * MIB, dtype=torch.uint8, device="neuron")
    address = first.data_ptr()
    del first
    assert torch.empty(3 * MIB, dtype=torch.uint8, device="neuron").data_ptr() == address


def test_blocks_are_aligned_and_rounded():
    tensors = [torch.empty(n, dtype=torch.uint8, device="neuron") for n in (1, 511, 512, 513)]
    assert all(t.data_ptr() % 512 == 0 for t in tensors)
    sizes = [blocks_of(t)[1]["size"] for t in tensors]
    assert sizes == [512, 512, 512, 1024]


def test_empty_tensor_takes_no_memory():
    before = stat("allocation.all.allocated")
    tensor = torch.empty(0, device="neuron")
    assert tensor.device.type == "neuron"
    assert tensor.data_ptr() == 0
    assert stat("allocation.all.allocated") == before


def test_small_and_large_requests_come_from_their_pools():
    memory.empty_cache()  # a cached segment could serve them instead
    small, large, huge = (
        torch.empty(n, dtype=torch.uint8, device="neuron") for n in (MIB, MIB + 1, 33 * MIB)
    )
    assert blocks_of(small)[0]["segment_type"] == "small"
    assert blocks_of(small)[0]["total_size"] == 2 * MIB
    assert blocks_of(large)[0]["segment_type"] == "large"
    assert blocks_of(huge)[0]["total_size"] == 34 * MIB


def test_devices_have_memory_of_their_own():
    before = stat("allocated_bytes.all.current", 2)
    tensor = torch.empty(1000, dtype=torch.uint8, device="neuron:2")
    assert stat("allocated_bytes.all.current", 2) == before + 1024
    assert blocks_of(tensor)[0]["device"] == 2


def test_streams_do_not_share_cached_memory():
    side = torch.Stream("neuron")
    tensor = torch.empty(1000, device="neuron")
    address = tensor.data_ptr()
    del tensor
    with side:
        other = torch.empty(1000, device="neuron")
    assert other.data_ptr() != address
    assert blocks_of(other)[0]["stream"] == side.stream_id
    assert torch.empty(1000, device="neuron").data_ptr() == address


def test_recorded_stream_delays_reuse_until_its_event():
    side = torch.Stream("neuron")
    tensor = torch.empty(5 * MIB, dtype=torch.uint8, device="neuron")
    address = tensor.data_ptr()
    allocated, active = stat("allocated_bytes.all.current"), stat("active_bytes.all.current")
    tensor.record_stream(side)
    del tensor
    assert stat("allocated_bytes.all.current") == allocated - 5 * MIB
    assert stat("active_bytes.all.current") == active
    states = {
        block["address"]: block["state"]
        for segment in memory.memory_snapshot()
        for block in segment["blocks"]
    }
    assert states[address] == "active_awaiting_free"
    side.synchronize()
    assert torch.empty(5 * MIB, dtype=torch.uint8, device="neuron").data_ptr() == address


def test_recording_the_own_stream_changes_nothing():
    tensor = torch.empty(1000, device="neuron")
    address = tensor.data_ptr()
    tensor.record_stream(torch.accelerator.current_stream())
    del tensor
    assert torch.empty(1000, device="neuron").data_ptr() == address


def test_temporaries_of_an_operator_do_not_raise_the_peak():
    x = torch.randn(512, 512, device="neuron")
    torch.linalg.qr(x)
    memory.reset_peak_memory_stats()
    before = memory.memory_allocated()
    q, r = torch.linalg.qr(x)
    outputs = q.untyped_storage().nbytes() + r.untyped_storage().nbytes()
    assert memory.memory_allocated() == before + outputs
    assert memory.max_memory_allocated() == before + outputs


def test_out_of_memory_names_what_holds_the_memory(limited):
    held = megabytes(40)
    with pytest.raises(torch.OutOfMemoryError) as error:
        megabytes(30)
    message = str(error.value)
    assert message.startswith("neuron out of memory. Tried to allocate 30.00 MiB. neuron:0 has")
    assert f"This process may reserve {64 + limited}.00 MiB" in message
    assert f"has reserved {40 + limited}.00 MiB: 40.00 MiB is allocated and" in message
    assert "PYTORCH_ALLOC_CONF" in message
    assert "TORCH_TRAINIUM_HBM_BYTES" in message
    del held
    assert megabytes(60).numel() == 60 * MIB


def test_out_of_memory_reports_fragmentation(limited):
    pieces = [megabytes(4) for _ in range(15)]
    del pieces[1::2]
    with pytest.raises(torch.OutOfMemoryError, match=r"unallocated \(largest free block 4.00 MiB"):
        megabytes(8)


def test_cached_segments_are_released_before_giving_up(limited):
    retries = stat("num_alloc_retries")
    del_me = megabytes(60)
    del del_me
    assert stat("reserved_bytes.all.current") >= 60 * MIB
    assert megabytes(62).numel() == 62 * MIB
    assert stat("num_alloc_retries") == retries + 1


def test_segment_with_room_for_more_is_not_required_near_the_limit(limited):
    held = megabytes(58)
    assert blocks_of(megabytes(4))[0]["total_size"] == 4 * MIB
    del held


def test_a_thousand_out_of_memory_errors_leave_the_allocator_usable(limited):
    held = torch.arange(1000, device="neuron")
    ooms, allocated = stat("num_ooms"), memory.memory_allocated()
    for size in range(1000):
        with pytest.raises(torch.OutOfMemoryError):
            megabytes(65 + size)
    assert stat("num_ooms") == ooms + 1000
    assert memory.memory_allocated() == allocated
    assert held.tolist() == list(range(1000))


@pytest.mark.parametrize("size", [2**62, 2**63 - 1])
def test_absurd_sizes_are_out_of_memory(size):
    with pytest.raises(torch.OutOfMemoryError, match=f"Tried to allocate {size} bytes"):
        torch.empty(size, dtype=torch.uint8, device="neuron")


def test_negative_size_is_refused():
    with pytest.raises(TypeError):
        memory.caching_allocator_alloc(-1)


def test_host_memory_exhaustion_is_an_error_of_its_own():
    code = """
import torch, torch_trainium
held = []
try:
    while True:
        held.append(torch.empty(2**30, dtype=torch.uint8, device="neuron"))
except torch.OutOfMemoryError as error:
    print("host" if "host memory" in str(error) else "device")
del held
print(torch.ones(1, device="neuron").tolist())
"""
    meminfo = Path("/proc/meminfo").read_text().splitlines()
    available_kib = next(int(x.split()[1]) for x in meminfo if x.startswith("MemAvailable"))
    if available_kib > 24 * 2**20:
        pytest.skip("this machine has more memory than the device")
    assert output_of(code).split() == ["host", "[1.0]"]


def resident_device_bytes():
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssShmem:\s+(\d+) kB", status)[1]) * 1024


def test_cached_memory_of_the_wrong_size_gives_its_pages_back():
    memory.empty_cache()
    before = resident_device_bytes()
    sizes = range(10, 60, 2)
    for size in sizes:
        torch.full((size * MIB,), 1, dtype=torch.uint8, device="neuron:3")
    assert memory.memory_reserved("neuron:3") >= sum(sizes) * MIB
    assert resident_device_bytes() - before < 1.2 * memory.max_memory_allocated("neuron:3")
    memory.empty_cache()
    assert resident_device_bytes() - before < MIB


def test_threads_never_share_memory():
    failures = []

    def work(number):
        generator = torch.Generator().manual_seed(number)
        live = []
        for _ in range(300):
            size = int(torch.randint(1, 40000, (), generator=generator))
            live.append(torch.full((size,), number, device="neuron", dtype=torch.int32))
            if len(live) > 8:
                tensor = live.pop(int(torch.randint(0, 8, (), generator=generator)))
                if set(tensor.tolist()) != {number}:
                    failures.append(number)

    before = memory.memory_allocated()
    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert memory.memory_allocated() == before


def test_tensor_freed_by_another_thread():
    box = [torch.ones(1000, device="neuron")]
    before = memory.memory_allocated()
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    assert memory.memory_allocated() == before - 4096


def test_profiler_sees_allocations():
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        torch.empty(5 * MIB, dtype=torch.uint8, device="neuron")
    usage = [event.device_memory_usage for event in profile.events()]
    assert max(usage) == 5 * MIB


SETTINGS = """
import os, torch, torch_trainium
from torch_trainium.neuron import memory
MIB = 2**20
def empty(mebibytes):
    return torch.empty(int(mebibytes * MIB), dtype=torch.uint8, device="neuron")
"""


def test_max_split_size_keeps_large_blocks_whole():
    code = """
del_me = empty(100); del del_me
small = empty(10)
print(memory.memory_reserved() // MIB, memory.memory_stats()["max_split_size"] // MIB)
same = empty(99)
print(memory.memory_reserved() // MIB, memory.memory_stats()["oversize_allocations.current"])
"""
    output = output_of(SETTINGS + code, environ={"PYTORCH_ALLOC_CONF": "max_split_size_mb:50"})
    assert output.splitlines() == ["110 50", "110 1"]


def test_garbage_collection_releases_the_oldest_segments():
    code = """
memory.set_per_process_memory_fraction(200 * MIB / memory.mem_get_info()[1])
blocks = [empty(n) for n in (20, 30, 40)]
for _ in range(3):
    blocks.pop(0)
print(memory.memory_reserved() // MIB)
kept = empty(50)
print(sorted(s["total_size"] // MIB for s in memory.memory_snapshot()))
"""
    conf = {"PYTORCH_ALLOC_CONF": "garbage_collection_threshold:0.4"}
    assert output_of(SETTINGS + code, environ=conf).splitlines() == ["90", "[30, 40, 50]"]


def test_roundup_power2_divisions_round_blocks():
    code = """
tensors = [empty(n / 16) for n in (17, 33, 48, 100)]
print([b["size"] * 16 // MIB for s in memory.memory_snapshot() for b in s["blocks"]
       if b["state"] != "inactive"])
torch._C._accelerator_setAllocatorSettings("roundup_power2_divisions:1")
empty(1.01)
print(memory.memory_snapshot()[-1]["total_size"] > 0)
"""
    conf = {"PYTORCH_ALLOC_CONF": "roundup_power2_divisions:4"}
    sizes, _ = output_of(SETTINGS + code, environ=conf).splitlines()
    assert sizes == "[20, 40, 48, 112]"


def test_expandable_segments_warns_that_it_has_no_effect():
    code = "empty(1); empty(1)"
    done = run_python(SETTINGS + code, environ={"PYTORCH_ALLOC_CONF": "expandable_segments:True"})
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("expandable_segments has no effect") == 1


def test_forked_child_may_drop_tensors_but_not_allocate():
    code = """
tensor = empty(1)
pid = os.fork()
if pid == 0:
    del tensor
    try:
        empty(1)
    except RuntimeError as error:
        os._exit(0 if "spawn" in str(error) else 2)
    os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert output_of(SETTINGS + code) == "0"


def test_memory_of_the_device_can_be_made_smaller():
    code = """
print(memory.mem_get_info()[1] // MIB)
try:
    empty(65)
except torch.OutOfMemoryError as error:
    print("total capacity of 64.00 MiB" in str(error))
"""
    environ = {"TORCH_TRAINIUM_HBM_BYTES": str(64 * MIB)}
    assert output_of(SETTINGS + code, environ=environ).splitlines() == ["64", "True"]


def test_cores_that_share_a_stack_make_room_for_each_other():
    code = """
del_me = torch.empty(50 * MIB, dtype=torch.uint8, device="neuron:1"); del del_me
print(empty(40).numel() // MIB, memory.memory_reserved(1))
"""
    environ = {"TORCH_TRAINIUM_HBM_BYTES": str(64 * MIB), "NEURON_LOGICAL_NC_CONFIG": "1"}
    assert output_of(SETTINGS + code, environ=environ) == "40 0"
