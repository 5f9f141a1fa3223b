// What the allocator did, kept for memory snapshots while recording is on.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <atomic>
#include <memory>
#include <vector>

namespace torch_trainium {

using c10::CachingDeviceAllocator::CreateContextFn;
using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::TraceEntry;

struct TraceOptions {
  bool enabled = false;
  CreateContextFn gather = nullptr;  // captures the calling thread's stack
  RecordContext record = RecordContext::NEVER;
  size_t max_entries = 1;
  std::vector<TraceEntry::Action> skipped_actions;
};

// The calling thread's stack where recording asks for one at `level`, else null.
// May take the GIL, so no allocator lock may be held.
std::shared_ptr<c10::GatheredContext> gather_context(RecordContext level);

// Calibrates the clock of trace entries. The longer before conversion, the better.
void start_trace_clock();
// Replaces the ticks of entries by nanoseconds since the epoch.
void convert_to_unix_time(std::vector<TraceEntry>& entries);

// Sets what gather_context does, for all devices.
void set_gathering(const TraceOptions& options);

inline std::atomic<bool> recording{false};
inline bool is_recording() { return recording.load(std::memory_order_relaxed); }

// The last `max_entries` actions of one device. Guarded by the device's heap.
class AllocationTrace {
 public:
  void configure(const TraceOptions& options, bool clear);
  void add(TraceEntry entry);
  bool enabled() const { return options_.enabled; }
  // Oldest first; times still in ticks of the approximate clock.
  std::vector<TraceEntry> entries() const;

 private:
  TraceOptions options_;
  std::vector<TraceEntry> ring_;
  size_t oldest_ = 0;
};

}  // namespace torch_trainium
