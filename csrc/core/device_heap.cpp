#include "core/device_heap.h"

#include <algorithm>

namespace torch_trainium {

using runtime::AllocationStatus;

DeviceHeap::DeviceHeap(runtime::Runtime& runtime, c10::DeviceIndex device)
    : runtime_(runtime), device_(device), total_bytes_(runtime.memory_info(device).total_bytes) {}

Grant DeviceHeap::allocate(const MemoryRequest& request) {
  const std::lock_guard lock(lock_);
  if (!pending_.empty()) [[unlikely]] {
    finish_ready_events();
  }
  Arena& arena = arena_for(request.stream, request.pool_id);
  BlockPool& pool = request.block_bytes <= kSmallBytes ? arena.small : arena.large;
  Block* found = pool.find(request.block_bytes);
  if (found == nullptr) [[unlikely]] {
    AllocationStatus status;
    found = add_segment(pool, request.block_bytes, request.context, status);
    if (found == nullptr) {
      return {nullptr, status, totals()};
    }
  }
  return {take(found, request), AllocationStatus::kOk, totals()};
}

Grant DeviceHeap::allocate_from_lending_pools(const MemoryRequest& request) {
  const std::lock_guard lock(lock_);
  for (const auto& arena : arenas_) {
    if (arena->owner == nullptr || !arena->owner->use_on_oom || arena->stream != request.stream) {
      continue;
    }
    BlockPool& pool = request.block_bytes <= kSmallBytes ? arena->small : arena->large;
    if (Block* found = pool.find(request.block_bytes)) {
      return {take(found, request), AllocationStatus::kOk, totals()};
    }
  }
  return {nullptr, AllocationStatus::kDeviceMemoryExhausted, totals()};
}

// Hands out the low end of a free block.
Block* DeviceHeap::take(Block* found, const MemoryRequest& request) {
  BlockPool& pool = *found->pool;
  const bool small = pool.is_small();
  const bool was_split = found->is_split();
  const size_t resident = found->resident_bytes;
  Block* block = found;
  if (pool.splits(*found, request.block_bytes)) {
    block = slab_.acquire();
    block->address = found->address;
    block->size = request.block_bytes;
    block->pool = &pool;
    block->prev = found->prev;
    block->next = found;
    block->extras = nullptr;
    block->resident_bytes = 0;
    block->pending_events = 0;
    if (found->prev != nullptr) {
      found->prev->next = block;
    }
    found->prev = block;
    pool.move_start(found, block->end());
    if (was_split) {
      counters_.decrease(small, kInactiveSplitBytes, block->size);
    } else {
      counters_.increase(small, kInactiveSplit, 1);
      counters_.increase(small, kInactiveSplitBytes, found->size);
    }
  } else {
    pool.erase(found);
    if (was_split) {
      counters_.decrease(small, kInactiveSplit, 1);
      counters_.decrease(small, kInactiveSplitBytes, found->size);
    }
  }
  block->state = BlockState::kAllocated;
  block->requested_size = request.requested_bytes;
  ++allocations_;
  counters_.add_allocation(small, block->size, request.requested_bytes);
  if (!request.provisional) {
    counters_.raise_peaks<kAllocation, kSegment>(small);
  }
  if (!small) {
    // What is used first is the start of a block.
    const size_t reused = std::min(resident, block->size);
    found->resident_bytes = resident - reused;
    note_use(block, reused);
    if (pool.is_oversize(block->size)) {
      rare_.oversize_allocations.increase(1);
    }
  }
  if (trace_.enabled()) [[unlikely]] {
    if (request.context != nullptr) {
      block->extras = new BlockExtras{{}, request.context};
    }
    record(TraceEntry::ALLOC, block->address, block->requested_size, pool.arena(), request.context);
  }
  return block;
}

HeapTotals DeviceHeap::free(Block* block, const GatheredContextPtr& context) {
  const std::lock_guard lock(lock_);
  BlockPool& pool = *block->pool;
  counters_.decrease(pool.is_small(), kAllocation, 1);
  counters_.decrease(pool.is_small(), kAllocatedBytes, block->size);
  if (pool.is_oversize(block->size)) {
    rare_.oversize_allocations.decrease(1);
  }
  if (trace_.enabled()) [[unlikely]] {
    record(TraceEntry::FREE_REQUESTED, block->address, block->requested_size, pool.arena(),
           context);
  }
  if (block->extras != nullptr && !block->extras->streams.empty()) [[unlikely]] {
    defer_free(block);
  } else {
    complete_free(block, context);
  }
  return totals();
}

void DeviceHeap::complete_free(Block* block, const GatheredContextPtr& context) {
  BlockPool& pool = *block->pool;
  counters_.decrease(pool.is_small(), kActive, 1);
  counters_.decrease(pool.is_small(), kActiveBytes, block->size);
  counters_.decrease(pool.is_small(), kRequestedBytes, block->requested_size);
  if (trace_.enabled()) [[unlikely]] {
    record(TraceEntry::FREE_COMPLETED, block->address, block->requested_size, pool.arena(),
           context);
  }
  if (block->extras != nullptr) [[unlikely]] {
    delete block->extras;
    block->extras = nullptr;
  }
  Block* merged = make_free(block);
  if (pool.arena().is_orphaned() && !merged->is_split()) [[unlikely]] {
    release_segment(merged, context);
    drop_empty_orphans();
  }
}

inline void DeviceHeap::count_inactive_split(bool small, int64_t blocks, int64_t bytes) {
  const auto add = [&](Metric metric, int64_t amount) {
    if (amount > 0) {
      counters_.increase(small, metric, static_cast<size_t>(amount));
    } else {
      counters_.decrease(small, metric, static_cast<size_t>(-amount));
    }
  };
  add(kInactiveSplit, blocks);
  add(kInactiveSplitBytes, bytes);
  counters_.raise_peaks<kInactiveSplit, kSegment>(small);
}

// Puts a block into its pool, merged with free neighbours.
Block* DeviceHeap::make_free(Block* block) {
  BlockPool& pool = *block->pool;
  int64_t split_blocks = 0;
  int64_t split_bytes = 0;
  if (Block* prev = block->prev; prev != nullptr && prev->is_free()) {
    split_blocks -= 1;
    split_bytes -= static_cast<int64_t>(prev->size);
    pool.erase(prev);
    block->address = prev->address;
    block->size += prev->size;
    block->resident_bytes += prev->resident_bytes;
    block->prev = prev->prev;
    if (block->prev != nullptr) {
      block->prev->next = block;
    }
    slab_.recycle(prev);
  }
  if (Block* next = block->next; next != nullptr && next->is_free()) {
    split_blocks -= 1;
    split_bytes -= static_cast<int64_t>(next->size);
    next->prev = block->prev;
    if (next->prev != nullptr) {
      next->prev->next = next;
    }
    next->resident_bytes += block->resident_bytes;
    pool.move_start(next, block->address);
    slab_.recycle(block);
    block = next;
  } else {
    block->state = BlockState::kFree;
    pool.insert(block);
  }
  block->freed_at = allocations_;
  if (block->is_split()) {
    split_blocks += 1;
    split_bytes += static_cast<int64_t>(block->size);
  }
  count_inactive_split(pool.is_small(), split_blocks, split_bytes);
  return block;
}

void DeviceHeap::count_retry() {
  const std::lock_guard lock(lock_);
  ++rare_.num_alloc_retries;
}

void DeviceHeap::count_out_of_memory(const MemoryRequest& request) {
  const std::lock_guard lock(lock_);
  ++rare_.num_ooms;
  const size_t free_bytes = runtime_.memory_info(device_).free_bytes;
  record(TraceEntry::OOM, reinterpret_cast<const void*>(free_bytes), request.requested_bytes,
         arena_for(request.stream, request.pool_id), request.context);
}

HeapTotals DeviceHeap::totals() const {
  return {static_cast<size_t>(counters_.current(kAllocatedBytes)),
          static_cast<size_t>(counters_.current(kReservedBytes))};
}

void DeviceHeap::set_memory_fraction(double fraction) {
  const std::lock_guard lock(lock_);
  memory_fraction_ = fraction;
}

double DeviceHeap::memory_fraction() {
  const std::lock_guard lock(lock_);
  return memory_fraction_;
}

}  // namespace torch_trainium
