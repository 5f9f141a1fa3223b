"""The allocator against a model: any sequence of requests leaves its books in order."""

from collections import Counter
from itertools import pairwise

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from torch_trainium import _C

# Its own device, so that tensors of other tests do not appear in the snapshots.
DEVICE = 1
MIB = 2**20
DEFAULT_POOL = (0, 0)
STREAMS = (0, 3, 40)
METRICS = (
    "allocation",
    "active",
    "allocated_bytes",
    "active_bytes",
    "requested_bytes",
    "segment",
    "reserved_bytes",
    "inactive_split",
    "inactive_split_bytes",
)
SIZES = st.one_of(
    st.integers(1, 5000),
    st.integers(1, 1200 * 1024),
    st.sampled_from([512, 513, MIB, MIB + 1, 2 * MIB, 10 * MIB - 1, 10 * MIB, 21 * MIB]),
    st.integers(MIB, 30 * MIB),
)


def segments():
    return [s for s in _C.memory.snapshot(None, False)["segments"] if s["device"] == DEVICE]


class Allocator(RuleBasedStateMachine):
    @initialize()
    def start(self):
        self.live = {}  # address -> (size, stream, pool id)
        self.pools = []
        _C.memory.empty_cache(None)
        _C.memory.reset_peak_memory_stats(DEVICE)
        _C.memory.reset_accumulated_memory_stats(DEVICE)
        self.peak = Counter()

    def note_peak(self):
        sizes = [size for size, _, _ in self.live.values()]
        self.peak["allocation"] = max(self.peak["allocation"], len(sizes))
        self.peak["requested_bytes"] = max(self.peak["requested_bytes"], sum(sizes))

    @rule(size=SIZES, stream=st.sampled_from(STREAMS), pool=st.integers(0, 3))
    def allocate(self, size, stream, pool):
        pool = self.pools[pool] if pool < len(self.pools) else None
        if pool is not None:
            _C.memory.begin_allocating_to_pool(pool.id, DEVICE)
        address = _C.memory.raw_allocate(size, DEVICE, stream)
        if pool is not None:
            _C.memory.end_allocating_to_pool(pool.id, DEVICE)
        assert address not in self.live
        self.live[address] = (size, stream, DEFAULT_POOL if pool is None else pool.id)
        self.note_peak()

    @precondition(lambda self: self.live)
    @rule(which=st.integers(0, 10**6))
    def free(self, which):
        address = sorted(self.live)[which % len(self.live)]
        _C.memory.raw_delete(address)
        del self.live[address]

    @precondition(lambda self: len(self.pools) < 3)
    @rule(no_split=st.booleans())
    def create_pool(self, no_split):
        self.pools.append(_C.memory.MemPool(DEVICE, False, no_split))

    @precondition(lambda self: self.pools)
    @rule(which=st.integers(0, 2))
    def drop_pool(self, which):
        del self.pools[which % len(self.pools)]

    @rule(which=st.integers(-1, 2))
    def empty_cache(self, which):
        pool = self.pools[which] if 0 <= which < len(self.pools) else None
        cached = DEFAULT_POOL if pool is None else pool.id
        _C.memory.empty_cache(None if pool is None else pool.id)
        for segment in segments():
            if segment["segment_pool_id"] == cached:
                assert segment["active_size"] > 0

    @rule()
    def reset_peak(self):
        _C.memory.reset_peak_memory_stats(DEVICE)
        self.peak.clear()
        self.note_peak()

    @invariant()
    def blocks_tile_segments_and_hold_what_was_allocated(self):
        found = {}
        for segment in segments():
            end = segment["address"]
            previous = None
            for block in segment["blocks"]:
                assert block["address"] == end
                assert block["size"] % 512 == 0
                end += block["size"]
                free = block["state"] == "inactive"
                assert not (free and previous == "inactive"), "free neighbours were not merged"
                previous = block["state"]
                if not free:
                    assert block["requested_size"] <= block["size"]
                    found[block["address"]] = (
                        block["requested_size"],
                        segment["stream"],
                        segment["segment_pool_id"],
                    )
            assert end == segment["address"] + segment["total_size"]
        assert found == self.live

    @invariant()
    def segments_do_not_overlap(self):
        ranges = sorted((s["address"], s["total_size"]) for s in segments())
        for (address, size), (following, _) in pairwise(ranges):
            assert address + size <= following

    @invariant()
    def memory_of_dropped_pools_goes_with_their_last_allocation(self):
        owners = {DEFAULT_POOL, *(pool.id for pool in self.pools)}
        for segment in segments():
            assert segment["segment_pool_id"] in owners or segment["active_size"] > 0

    @invariant()
    def statistics_are_sums_over_the_blocks(self):
        sums = {kind: Counter() for kind in ("small_pool", "large_pool", "all")}
        for segment in segments():
            for kind in (segment["segment_type"] + "_pool", "all"):
                total = sums[kind]
                total["segment"] += 1
                total["reserved_bytes"] += segment["total_size"]
                for block in segment["blocks"]:
                    if block["state"] == "active_allocated":
                        total["allocation"] += 1
                        total["active"] += 1
                        total["allocated_bytes"] += block["size"]
                        total["active_bytes"] += block["size"]
                        total["requested_bytes"] += block["requested_size"]
                    elif len(segment["blocks"]) > 1:
                        total["inactive_split"] += 1
                        total["inactive_split_bytes"] += block["size"]
        stats = _C.memory.memory_stats(DEVICE)
        for metric in METRICS:
            for kind, total in sums.items():
                stat = stats[metric][kind]
                assert stat["current"] == total[metric], (metric, kind)
                assert stat["peak"] >= stat["current"]
                assert stat["allocated"] >= 0
                assert stat["freed"] >= 0
        for metric in ("allocation", "requested_bytes"):
            assert stats[metric]["all"]["peak"] == self.peak[metric]
        for pool in self.pools:
            by_pool = stats["reserved_bytes_by_private_pools"].get(pool.id)
            held = sum(s["total_size"] for s in segments() if s["segment_pool_id"] == pool.id)
            assert (by_pool["all"]["current"] if by_pool else 0) == held

    def teardown(self):
        for address in getattr(self, "live", ()):
            _C.memory.raw_delete(address)
        self.pools = []
        _C.memory.empty_cache(None)
        assert segments() == []
        stats = _C.memory.memory_stats(DEVICE)
        for metric in ("allocated_bytes", "reserved_bytes", "inactive_split_bytes"):
            assert stats[metric]["all"]["current"] == 0
            # What was reset while it was allocated is freed without having been allocated.
            assert stats[metric]["all"]["freed"] == stats[metric]["all"]["allocated"]


TestAllocator = Allocator.TestCase
TestAllocator.settings = settings(
    max_examples=60,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
