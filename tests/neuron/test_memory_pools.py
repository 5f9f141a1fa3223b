"""Memory pools keep their allocations apart."""

import threading

import pytest
import torch

from torch_trainium.neuron import memory

MIB = 2**20


def empty(mebibytes):
    return torch.empty(int(mebibytes * MIB), dtype=torch.uint8, device="neuron")


def pool_of(tensor):
    address = tensor.untyped_storage().data_ptr()
    return next(
        segment["segment_pool_id"]
        for segment in memory.memory_snapshot()
        for block in segment["blocks"]
        if block["address"] == address
    )


def test_allocations_inside_go_to_the_pool():
    pool = memory.MemPool()
    before = empty(1)
    with memory.use_mem_pool(pool):
        inside = empty(1)
        computed = inside + 1
    after = empty(1)
    assert pool.id != (0, 0)
    assert [pool_of(t) for t in (before, inside, computed, after)] == [
        (0, 0),
        pool.id,
        pool.id,
        (0, 0),
    ]
    assert sum(s["active_size"] for s in pool.snapshot()) == 2 * MIB


def test_pools_nest():
    outer, inner = memory.MemPool(), memory.MemPool()
    assert outer.id != inner.id
    with memory.use_mem_pool(outer):
        with memory.use_mem_pool(inner):
            first = empty(1)
        second = empty(1)
    assert (pool_of(first), pool_of(second)) == (inner.id, outer.id)


def test_pool_is_left_after_an_exception():
    pool = memory.MemPool()
    with pytest.raises(KeyError), memory.use_mem_pool(pool):
        raise KeyError
    assert pool_of(empty(1)) == (0, 0)
    assert pool.use_count() == 1


def test_use_count():
    pool = memory.MemPool()
    assert pool.use_count() == 1
    with memory.use_mem_pool(pool):
        assert pool.use_count() == 2
    assert pool.use_count() == 1


def test_only_the_thread_that_asked_uses_the_pool():
    pool = memory.MemPool()
    made = []
    with memory.use_mem_pool(pool):
        thread = threading.Thread(target=lambda: made.append(empty(1)))
        thread.start()
        thread.join()
    assert pool_of(made[0]) == (0, 0)


def test_pool_of_another_device():
    pool = memory.MemPool()
    with memory.use_mem_pool(pool, device="neuron:1"):
        here = empty(1)
        there = torch.empty(MIB, dtype=torch.uint8, device="neuron:1")
    assert (pool_of(here), pool_of(there)) == ((0, 0), pool.id)


def test_memory_goes_with_the_pool_and_its_tensors():
    pool = memory.MemPool()
    memory.empty_cache()
    reserved = memory.memory_reserved()
    with memory.use_mem_pool(pool):
        kept, dropped = empty(20), empty(40)
    del dropped
    assert memory.memory_reserved() == reserved + 60 * MIB
    memory.empty_cache()
    assert memory.memory_reserved() == reserved + 60 * MIB, "a live pool keeps its cache"
    pool_id = pool.id
    del pool
    assert memory.memory_reserved() == reserved + 20 * MIB
    del kept
    assert memory.memory_reserved() == reserved
    stats = memory.memory_stats_as_nested_dict()["reserved_bytes_by_private_pools"][pool_id]["all"]
    assert stats == {"current": 0, "peak": 60 * MIB, "allocated": 60 * MIB, "freed": 60 * MIB}
    memory.reset_accumulated_memory_stats()
    assert pool_id not in memory.memory_stats_as_nested_dict()["reserved_bytes_by_private_pools"]


def test_pool_that_lends_on_out_of_memory():
    memory.empty_cache()
    limit = memory.memory_reserved() + 64 * MIB
    pool = memory.MemPool(use_on_oom=True)
    selfish = memory.MemPool()
    with memory.use_mem_pool(pool):
        empty(30)
    with memory.use_mem_pool(selfish):
        empty(30)
    memory.set_per_process_memory_fraction(limit / memory.mem_get_info()[1])
    try:
        lent = empty(30)
        assert pool_of(lent) == pool.id
        with pytest.raises(torch.OutOfMemoryError, match=r"pools of the user hold 60\.00 MiB"):
            empty(30)
    finally:
        memory.set_per_process_memory_fraction(1.0)


def test_pool_without_splits():
    pool = memory.MemPool(no_split=True)
    with memory.use_mem_pool(pool):
        tensors = [empty(3), empty(3)]
    assert [len(segment["blocks"]) for segment in pool.snapshot()] == [1, 1]
    del tensors


def test_other_sources_of_memory_are_refused():
    with pytest.raises(NotImplementedError, match="takes no allocator"):
        memory.MemPool(object())
