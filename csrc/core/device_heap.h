// One device's memory: segments from the runtime, cut into blocks and cached.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/flat_hash_map.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/allocation_trace.h"
#include "core/block_pool.h"
#include "core/memory_counters.h"
#include "core/spin_lock.h"
#include "runtime/runtime.h"

namespace torch_trainium {

using c10::CachingDeviceAllocator::DeviceStats;
using c10::CachingDeviceAllocator::SegmentInfo;
using GatheredContextPtr = std::shared_ptr<c10::GatheredContext>;

struct MemoryRequest {
  size_t requested_bytes;
  size_t block_bytes;  // rounded
  int64_t stream;
  c10::MempoolId_t pool_id;  // {0, 0}: the default memory pool
  bool provisional;          // not to raise peaks
  GatheredContextPtr context;
};

struct HeapTotals {
  size_t allocated_bytes;
  size_t reserved_bytes;
};

struct Grant {
  Block* block;  // null where there is no memory
  runtime::AllocationStatus status;
  HeapTotals totals;
};

// What holds the memory of a device.
struct HeapUsage {
  HeapTotals totals;
  size_t largest_free_block_bytes;
  size_t private_pool_bytes;
};

struct HeapSegment {
  // The block that ends the segment: splitting and merging keep this object.
  Block* last;
  size_t bytes;
  GatheredContextPtr context;
};

class DeviceHeap {
 public:
  DeviceHeap(runtime::Runtime& runtime, c10::DeviceIndex device);
  DeviceHeap(const DeviceHeap&) = delete;
  DeviceHeap& operator=(const DeviceHeap&) = delete;

  c10::DeviceIndex device() const { return device_; }

  // A cached block or a piece of a new segment.
  Grant allocate(const MemoryRequest& request);
  // The same from pools that lend their memory before an out-of-memory error.
  Grant allocate_from_lending_pools(const MemoryRequest& request);
  HeapTotals free(Block* block, const GatheredContextPtr& context);

  // Keeps the block from being reused until `stream` reaches the point where
  // the block is freed.
  void record_stream(Block* block, c10::Stream stream);

  // Returns unused segments to the runtime; those of `pool_id`, or for {0, 0}
  // those of the default memory pool and of pools that are gone.
  void release_cached(c10::MempoolId_t pool_id, const GatheredContextPtr& context = nullptr);

  void count_retry();
  void count_out_of_memory(const MemoryRequest& request);
  HeapUsage usage();

  void set_memory_fraction(double fraction);
  double memory_fraction();

  DeviceStats stats();
  void reset_peak();
  void reset_accumulated();
  // Lets the peaks follow the current values.
  void raise_peaks();

  // A pool is created retained.
  void create_pool(c10::MempoolId_t id, bool use_on_oom, bool no_split);
  void retain_pool(c10::MempoolId_t id);
  void release_pool(c10::MempoolId_t id);
  int pool_use_count(c10::MempoolId_t id);

  void configure_trace(const TraceOptions& options, bool clear);
  void snapshot(std::optional<c10::MempoolId_t> pool_id, std::vector<SegmentInfo>& segments);
  std::vector<TraceEntry> trace();
  void mark_snapshot();
  // The stack recorded when the live block at `address` was allocated, or null.
  GatheredContextPtr context_of(const void* address);

 private:
  struct PendingEvent {
    void* event;
    Block* block;
  };

  Arena& arena_for(int64_t stream, const c10::MempoolId_t& pool_id) {
    Arena* last = last_arena_;
    return last != nullptr && last->stream == stream && last->pool_id() == pool_id
               ? *last
               : find_arena(stream, pool_id);
  }
  Arena& find_arena(int64_t stream, const c10::MempoolId_t& pool_id);
  PrivatePool& private_pool(const c10::MempoolId_t& id);
  Block* take(Block* found, const MemoryRequest& request);
  Block* add_segment(BlockPool& pool, size_t block_bytes, const GatheredContextPtr& context,
                     runtime::AllocationStatus& status);
  Block* make_free(Block* block);
  void complete_free(Block* block, const GatheredContextPtr& context);
  std::vector<Block*> unused_segments() const;
  void release_segment(Block* block, const GatheredContextPtr& context);
  void drop_empty_orphans();
  void note_use(Block* block, size_t already_resident);
  void trim_resident(size_t target_bytes);
  void collect_garbage(const GatheredContextPtr& context);
  void defer_free(Block* block);
  void finish_ready_events();
  void finish_all_events();
  void finish_event(const PendingEvent& pending);
  void count_inactive_split(bool small, int64_t blocks, int64_t bytes);
  void record(TraceEntry::Action action, const void* address, size_t bytes, const Arena& arena,
              const GatheredContextPtr& context);
  size_t limit_bytes() const;
  HeapTotals totals() const;

  SpinLock lock_;
  runtime::Runtime& runtime_;
  const c10::DeviceIndex device_;
  const size_t total_bytes_;
  Arena* last_arena_ = nullptr;  // the arena of the previous allocation
  MemoryCounters counters_;
  uint64_t allocations_ = 0;
  BlockSlab slab_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::vector<std::unique_ptr<PrivatePool>> private_pools_;
  std::map<std::byte*, HeapSegment> segments_;
  std::map<std::pair<c10::DeviceIndex, int64_t>, std::deque<PendingEvent>> pending_;
  AllocationTrace trace_;
  DeviceStats rare_;  // the statistics that counters_ does not hold
  double memory_fraction_ = 1.0;
  size_t resident_bytes_ = 0;        // of the large pools
  size_t allocated_high_water_ = 0;  // of the large pools
};

}  // namespace torch_trainium
