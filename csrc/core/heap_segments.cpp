// The segments of a DeviceHeap: taken from the runtime, released, trimmed.
#include <c10/core/AllocatorConfig.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/device_heap.h"
#include "runtime/order_observer.h"

namespace torch_trainium {
namespace {

using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
using runtime::AllocationStatus;

size_t round_up(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

size_t preferred_segment_bytes(const BlockPool& pool, size_t block_bytes) {
  if (pool.is_small()) {
    return kSmallSegmentBytes;
  }
  const size_t exact = round_up(block_bytes, kRoundLargeBytes);
  return block_bytes < kMinLargeAllocBytes ? std::max(exact, Config::large_segment_size()) : exact;
}

}  // namespace

Block* DeviceHeap::add_segment(BlockPool& pool, size_t block_bytes,
                               const GatheredContextPtr& context, AllocationStatus& status) {
  if (Config::garbage_collection_threshold() > 0) {
    collect_garbage(context);
  }
  size_t bytes = preferred_segment_bytes(pool, block_bytes);
  const auto attempt = [&]() -> runtime::Allocation {
    if (totals().reserved_bytes + bytes > limit_bytes()) {
      return {AllocationStatus::kDeviceMemoryExhausted, nullptr};
    }
    return runtime_.allocate(device_, bytes);
  };
  runtime::Allocation allocation = attempt();
  if (allocation.status != AllocationStatus::kOk && !pool.is_small() &&
      round_up(block_bytes, kRoundLargeBytes) < bytes) {
    // Near the limit a segment with room for more than this block may not fit.
    bytes = round_up(block_bytes, kRoundLargeBytes);
    allocation = attempt();
  }
  status = allocation.status;
  if (status != AllocationStatus::kOk) {
    return nullptr;
  }
  Block* block = slab_.acquire();
  *block = {};
  block->address = static_cast<std::byte*>(allocation.address);
  block->size = bytes;
  block->pool = &pool;
  block->state = BlockState::kFree;
  block->freed_at = allocations_;
  pool.insert(block);
  segments_.emplace(block->address, HeapSegment{block, bytes, context});

  Arena& arena = pool.arena();
  ++arena.segment_count;
  counters_.increase(pool.is_small(), kSegment, 1);
  counters_.increase(pool.is_small(), kReservedBytes, bytes);
  counters_.raise_peaks<kSegment, kMetrics>(pool.is_small());
  ++rare_.num_device_alloc;
  if (pool.is_oversize(bytes)) {
    rare_.oversize_segments.increase(1);
  }
  if (arena.owner != nullptr) {
    auto& by_kind = rare_.reserved_bytes_by_private_pools[arena.owner->id];
    by_kind[0].increase(bytes);
    by_kind[pool.is_small() ? 1 : 2].increase(bytes);
  }
  record(TraceEntry::SEGMENT_ALLOC, block->address, bytes, arena, context);
  return block;
}

void DeviceHeap::release_segment(Block* block, const GatheredContextPtr& context) {
  BlockPool& pool = *block->pool;
  Arena& arena = pool.arena();
  record(TraceEntry::SEGMENT_FREE, block->address, block->size, arena, context);
  counters_.decrease(pool.is_small(), kSegment, 1);
  counters_.decrease(pool.is_small(), kReservedBytes, block->size);
  ++rare_.num_device_free;
  if (pool.is_oversize(block->size)) {
    rare_.oversize_segments.decrease(1);
  }
  if (arena.owner != nullptr) {
    auto& by_kind = rare_.reserved_bytes_by_private_pools[arena.owner->id];
    by_kind[0].decrease(block->size);
    by_kind[pool.is_small() ? 1 : 2].decrease(block->size);
  }
  resident_bytes_ -= block->resident_bytes;
  --arena.segment_count;
  pool.erase(block);
  segments_.erase(block->address);
  if (auto* order = runtime::order_observer.load(std::memory_order_acquire)) {
    order->memory_released(block->address + runtime_.host_offset(), block->size);
  }
  runtime_.release(device_, block->address, block->size);
  slab_.recycle(block);
}

// The blocks that are a whole unused segment each.
std::vector<Block*> DeviceHeap::unused_segments() const {
  std::vector<Block*> unused;
  for (const auto& [address, segment] : segments_) {
    if (segment.last->is_free() && !segment.last->is_split()) {
      unused.push_back(segment.last);
    }
  }
  return unused;
}

void DeviceHeap::release_cached(c10::MempoolId_t pool_id, const GatheredContextPtr& context) {
  const std::lock_guard lock(lock_);
  finish_all_events();
  for (Block* block : unused_segments()) {
    const Arena& arena = block->pool->arena();
    if (arena.pool_id() == pool_id || (pool_id == kDefaultPool && arena.is_orphaned())) {
      release_segment(block, context);
    }
  }
  drop_empty_orphans();
}

// Host memory stays behind what was freed, so that it can be used again without
// page faults. When the shapes of a program vary, holes of the wrong size would
// let it grow far beyond what tensors ever held at once; the holes unused for
// longest then give their pages back.
void DeviceHeap::note_use(Block* block, size_t already_resident) {
  constexpr size_t kSlack = 8;
  resident_bytes_ += block->size - already_resident;
  block->resident_bytes = block->size;
  allocated_high_water_ = std::max(allocated_high_water_,
                                   static_cast<size_t>(counters_.current(false, kAllocatedBytes)));
  if (resident_bytes_ > allocated_high_water_ + allocated_high_water_ / kSlack) [[unlikely]] {
    trim_resident(allocated_high_water_ + allocated_high_water_ / kSlack / 2);
  }
}

void DeviceHeap::trim_resident(size_t target_bytes) {
  std::vector<Block*> resident;
  for (const auto& arena : arenas_) {
    std::ranges::copy_if(arena->large.large_blocks(), std::back_inserter(resident),
                         [](const Block* block) { return block->resident_bytes > 0; });
  }
  std::ranges::sort(resident, {}, &Block::freed_at);
  for (Block* block : resident) {
    if (resident_bytes_ <= target_bytes) {
      return;
    }
    runtime_.discard(device_, block->address, block->size);
    resident_bytes_ -= std::exchange(block->resident_bytes, 0);
  }
}

// Releases the large segments unused for longest until the reserved memory is
// below garbage_collection_threshold.
void DeviceHeap::collect_garbage(const GatheredContextPtr& context) {
  const auto threshold = static_cast<size_t>(Config::garbage_collection_threshold() *
                                             static_cast<double>(limit_bytes()));
  std::vector<Block*> unused = unused_segments();
  std::erase_if(unused, [](const Block* block) {
    return block->pool->is_small() || block->pool->arena().owner != nullptr;
  });
  std::ranges::sort(unused, {}, &Block::freed_at);
  for (Block* block : unused) {
    if (totals().reserved_bytes <= threshold) {
      return;
    }
    release_segment(block, context);
  }
}

size_t DeviceHeap::limit_bytes() const {
  return static_cast<size_t>(memory_fraction_ * static_cast<double>(total_bytes_));
}

}  // namespace torch_trainium
