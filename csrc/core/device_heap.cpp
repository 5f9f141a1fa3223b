#include "core/device_heap.h"

#include <c10/core/AllocatorConfig.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace torch_trainium {
namespace {

using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
using runtime::AllocationStatus;

constexpr c10::MempoolId_t kDefaultPool{0, 0};

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

bool is_oversize(const BlockPool& pool, size_t bytes) {
  return !pool.is_small() && bytes >= Config::max_split_size();
}

}  // namespace

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
    if (is_oversize(pool, block->size)) {
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
  if (is_oversize(pool, block->size)) {
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

Arena& DeviceHeap::find_arena(int64_t stream, const c10::MempoolId_t& pool_id) {
  const auto found = std::ranges::find_if(arenas_, [&](const auto& arena) {
    return arena->stream == stream && arena->pool_id() == pool_id;
  });
  if (found != arenas_.end()) {
    last_arena_ = found->get();
  } else {
    PrivatePool* owner = pool_id == kDefaultPool ? nullptr : &private_pool(pool_id);
    last_arena_ = arenas_.emplace_back(std::make_unique<Arena>(*this, stream, owner)).get();
  }
  return *last_arena_;
}

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
  if (is_oversize(pool, bytes)) {
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
  if (is_oversize(pool, block->size)) {
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
  runtime_.release(device_, block->address, block->size);
  slab_.recycle(block);
}

void DeviceHeap::release_cached(c10::MempoolId_t pool_id, const GatheredContextPtr& context) {
  const std::lock_guard lock(lock_);
  finish_all_events();
  std::vector<Block*> unused;
  for (const auto& [address, segment] : segments_) {
    Block* block = segment.last;
    const Arena& arena = block->pool->arena();
    const bool selected =
        arena.pool_id() == pool_id || (pool_id == kDefaultPool && arena.is_orphaned());
    if (selected && block->is_free() && !block->is_split()) {
      unused.push_back(block);
    }
  }
  for (Block* block : unused) {
    release_segment(block, context);
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
  std::vector<Block*> unused;
  for (const auto& [address, segment] : segments_) {
    Block* block = segment.last;
    if (block->is_free() && !block->is_split() && !block->pool->is_small() &&
        block->pool->arena().owner == nullptr) {
      unused.push_back(block);
    }
  }
  std::ranges::sort(unused, {}, &Block::freed_at);
  for (Block* block : unused) {
    if (totals().reserved_bytes <= threshold) {
      return;
    }
    release_segment(block, context);
  }
}

void DeviceHeap::drop_empty_orphans() {
  last_arena_ = nullptr;
  std::erase_if(arenas_, [](const auto& a) { return a->is_orphaned() && a->segment_count == 0; });
  std::erase_if(private_pools_, [&](const auto& pool) {
    return pool->use_count == 0 &&
           std::ranges::none_of(arenas_, [&](const auto& a) { return a->owner == pool.get(); });
  });
}

void DeviceHeap::record_stream(Block* block, c10::Stream stream) {
  const std::lock_guard lock(lock_);
  if (stream.device_index() == device_ && stream.id() == block->pool->arena().stream) {
    return;  // the stream itself orders later uses of the block
  }
  if (block->extras == nullptr) {
    block->extras = new BlockExtras;
  }
  auto& streams = block->extras->streams;
  if (std::ranges::find(streams, stream) == streams.end()) {
    streams.push_back(stream);
  }
}

void DeviceHeap::defer_free(Block* block) {
  block->state = BlockState::kAwaitingEvents;
  for (const c10::Stream& stream : block->extras->streams) {
    void* event = runtime_.create_event(stream.device_index());
    runtime_.record_event(event, stream.device_index(), stream.id());
    pending_[{stream.device_index(), stream.id()}].push_back({event, block});
    ++block->pending_events;
  }
  block->extras->streams.clear();
}

void DeviceHeap::finish_event(const PendingEvent& pending) {
  runtime_.destroy_event(pending.event);
  if (--pending.block->pending_events == 0) {
    complete_free(pending.block, nullptr);
  }
}

void DeviceHeap::finish_ready_events() {
  for (auto it = pending_.begin(); it != pending_.end();) {
    auto& events = it->second;
    // A stream reaches its events in order.
    while (!events.empty() && runtime_.query_event(events.front().event)) {
      finish_event(events.front());
      events.pop_front();
    }
    it = events.empty() ? pending_.erase(it) : std::next(it);
  }
}

void DeviceHeap::finish_all_events() {
  ++rare_.num_sync_all_streams;
  for (const auto& [stream, events] : pending_) {
    for (const PendingEvent& pending : events) {
      runtime_.synchronize_event(pending.event);
      finish_event(pending);
    }
  }
  pending_.clear();
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

size_t DeviceHeap::limit_bytes() const {
  return static_cast<size_t>(memory_fraction_ * static_cast<double>(total_bytes_));
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

PrivatePool& DeviceHeap::private_pool(const c10::MempoolId_t& id) {
  for (const auto& pool : private_pools_) {
    if (pool->id == id) {
      return *pool;
    }
  }
  return *private_pools_.emplace_back(std::make_unique<PrivatePool>(PrivatePool{.id = id}));
}

void DeviceHeap::configure_pool(c10::MempoolId_t id, bool use_on_oom, bool no_split) {
  const std::lock_guard lock(lock_);
  PrivatePool& pool = private_pool(id);
  pool.use_on_oom = use_on_oom;
  pool.no_split = no_split;
}

void DeviceHeap::retain_pool(c10::MempoolId_t id) {
  const std::lock_guard lock(lock_);
  ++private_pool(id).use_count;
}

void DeviceHeap::release_pool(c10::MempoolId_t id) {
  const std::lock_guard lock(lock_);
  if (--private_pool(id).use_count > 0) {
    return;
  }
  std::vector<Block*> unused;
  for (const auto& [address, segment] : segments_) {
    if (segment.last->pool->arena().is_orphaned() && segment.last->is_free() &&
        !segment.last->is_split()) {
      unused.push_back(segment.last);
    }
  }
  for (Block* block : unused) {
    release_segment(block, nullptr);
  }
  drop_empty_orphans();
}

int DeviceHeap::pool_use_count(c10::MempoolId_t id) {
  const std::lock_guard lock(lock_);
  return private_pool(id).use_count;
}

}  // namespace torch_trainium
