// What a DeviceHeap tells about itself: statistics, snapshots, history.
#include <c10/core/AllocatorConfig.h>

#include <algorithm>
#include <iterator>

#include "core/device_heap.h"

namespace torch_trainium {

using c10::CachingDeviceAllocator::BlockInfo;

void DeviceHeap::record(TraceEntry::Action action, const void* address, size_t bytes,
                        const Arena& arena, const GatheredContextPtr& context) {
  if (!trace_.enabled()) [[likely]] {
    return;
  }
  trace_.add(TraceEntry(action, device_, reinterpret_cast<size_t>(address), bytes,
                        reinterpret_cast<void*>(arena.stream), arena.pool_id(),
                        c10::getApproximateTime(), context));
}

DeviceStats DeviceHeap::stats() {
  const std::lock_guard lock(lock_);
  DeviceStats stats = rare_;
  stats.allocation = counters_.stat(kAllocation);
  stats.segment = counters_.stat(kSegment);
  stats.active = counters_.stat(kActive);
  stats.inactive_split = counters_.stat(kInactiveSplit);
  stats.allocated_bytes = counters_.stat(kAllocatedBytes);
  stats.reserved_bytes = counters_.stat(kReservedBytes);
  stats.active_bytes = counters_.stat(kActiveBytes);
  stats.inactive_split_bytes = counters_.stat(kInactiveSplitBytes);
  stats.requested_bytes = counters_.stat(kRequestedBytes);
  stats.max_split_size =
      static_cast<int64_t>(c10::CachingAllocator::AcceleratorAllocatorConfig::max_split_size());
  return stats;
}

void DeviceHeap::raise_peaks() {
  const std::lock_guard lock(lock_);
  counters_.raise_peaks<kAllocation, kSegment>(false);
  counters_.raise_peaks<kAllocation, kSegment>(true);
}

void DeviceHeap::reset_peak() {
  const std::lock_guard lock(lock_);
  counters_.reset_peak();
  rare_.oversize_allocations.reset_peak();
  rare_.oversize_segments.reset_peak();
  for (auto& [id, by_kind] : rare_.reserved_bytes_by_private_pools) {
    for (auto& stat : by_kind) {
      stat.reset_peak();
    }
  }
}

void DeviceHeap::reset_accumulated() {
  const std::lock_guard lock(lock_);
  counters_.reset_accumulated();
  rare_.num_alloc_retries = 0;
  rare_.num_ooms = 0;
  rare_.num_sync_all_streams = 0;
  rare_.num_device_alloc = 0;
  rare_.num_device_free = 0;
  rare_.oversize_allocations.reset_accumulated();
  rare_.oversize_segments.reset_accumulated();
  auto& by_pool = rare_.reserved_bytes_by_private_pools;
  for (auto it = by_pool.begin(); it != by_pool.end();) {
    for (auto& stat : it->second) {
      stat.reset_accumulated();
    }
    const bool gone = std::ranges::none_of(private_pools_,
                                           [&](const auto& pool) { return pool->id == it->first; });
    it = gone ? by_pool.erase(it) : std::next(it);
  }
}

HeapUsage DeviceHeap::usage() {
  const std::lock_guard lock(lock_);
  HeapUsage usage{totals(), 0, 0};
  for (const auto& [address, segment] : segments_) {
    for (const Block* block = segment.last; block != nullptr; block = block->prev) {
      if (block->is_free()) {
        usage.largest_free_block_bytes = std::max(usage.largest_free_block_bytes, block->size);
      }
    }
    if (segment.last->pool->arena().owner != nullptr) {
      usage.private_pool_bytes += segment.bytes;
    }
  }
  return usage;
}

void DeviceHeap::configure_trace(const TraceOptions& options, bool clear) {
  const std::lock_guard lock(lock_);
  trace_.configure(options, clear);
}

std::vector<TraceEntry> DeviceHeap::trace() {
  const std::lock_guard lock(lock_);
  return trace_.entries();
}

void DeviceHeap::mark_snapshot() {
  const std::lock_guard lock(lock_);
  record(TraceEntry::SNAPSHOT, nullptr, static_cast<size_t>(counters_.current(kReservedBytes)),
         arena_for(0, kDefaultPool), nullptr);
}

void DeviceHeap::snapshot(std::optional<c10::MempoolId_t> pool_id,
                          std::vector<SegmentInfo>& segments) {
  const std::lock_guard lock(lock_);
  for (const auto& [address, segment] : segments_) {
    const BlockPool& pool = *segment.last->pool;
    const Arena& arena = pool.arena();
    if (pool_id.has_value() && *pool_id != arena.pool_id()) {
      continue;
    }
    SegmentInfo& info = segments.emplace_back();
    info.device = device_;
    info.address = reinterpret_cast<size_t>(address);
    info.total_size = segment.bytes;
    info.stream = reinterpret_cast<void*>(arena.stream);
    info.is_large = !pool.is_small();
    info.owner_private_pool_id = arena.pool_id();
    info.context_when_allocated = segment.context;
    for (const Block* block = segment.last; block != nullptr; block = block->prev) {
      BlockInfo& entry = info.blocks.emplace_back();
      entry.size = block->size;
      entry.allocated = block->state == BlockState::kAllocated;
      entry.active = !block->is_free();
      if (entry.active) {
        entry.requested_size = block->requested_size;
        info.active_size += block->size;
        info.requested_size += block->requested_size;
      }
      if (entry.allocated) {
        info.allocated_size += block->size;
      }
      if (block->extras != nullptr) {
        entry.context_when_allocated = block->extras->context;
      }
    }
    std::ranges::reverse(info.blocks);
  }
}

GatheredContextPtr DeviceHeap::context_of(const void* address) {
  const std::lock_guard lock(lock_);
  const auto* target = static_cast<const std::byte*>(address);
  auto above = segments_.upper_bound(const_cast<std::byte*>(target));
  if (above == segments_.begin()) {
    return nullptr;
  }
  for (const Block* block = std::prev(above)->second.last; block != nullptr; block = block->prev) {
    if (block->address == target && block->extras != nullptr) {
      return block->extras->context;
    }
  }
  return nullptr;
}

}  // namespace torch_trainium
