// Caching allocator over the runtime's HBM segments.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/allocation_trace.h"

namespace torch_trainium {

// The allocator registered for the device type; implements c10::DeviceAllocator.
c10::DeviceAllocator* device_allocator();

// Allocates on the calling thread's current stream of `device`. The pointer is a
// device address, its device is neuron:<device>. Never takes the GIL. Zero bytes
// give a null pointer. Raises c10::OutOfMemoryError.
c10::DataPtr allocate_device_memory(size_t bytes, c10::DeviceIndex device);

// The same on a given stream.
c10::DataPtr allocate_device_memory(size_t bytes, c10::Stream stream);

// Whether `ptr` was handed out by this allocator (by its deleter).
bool is_device_allocation(const c10::DataPtr& ptr) noexcept;

// While alive, the calling thread's allocations do not count towards peak
// statistics: a kernel's temporaries are not the device's. The destructor
// counts what survived.
class ProvisionalAllocations {
 public:
  ProvisionalAllocations() noexcept;
  ~ProvisionalAllocations();
  ProvisionalAllocations(const ProvisionalAllocations&) = delete;
  ProvisionalAllocations& operator=(const ProvisionalAllocations&) = delete;
};

// Bytes of a device that live allocations take.
int64_t allocated_bytes(int device);

// The share of a device's memory this process may reserve.
void set_memory_fraction(double fraction, c10::DeviceIndex device);
double memory_fraction(c10::DeviceIndex device);

// Memory pools. A pool lives while it is retained or has live allocations; then
// its memory returns to the device.
c10::MempoolId_t create_memory_pool(c10::DeviceIndex device, bool use_on_oom, bool no_split);
void retain_memory_pool(c10::MempoolId_t pool, c10::DeviceIndex device);
void release_memory_pool(c10::MempoolId_t pool, c10::DeviceIndex device);
int memory_pool_use_count(c10::MempoolId_t pool, c10::DeviceIndex device);
// Routes the calling thread's allocations on `device` to `pool`. Nests; each
// begin needs an end on the same thread. The pool is retained in between.
void begin_allocating_to_pool(c10::MempoolId_t pool, c10::DeviceIndex device);
void end_allocating_to_pool(c10::MempoolId_t pool, c10::DeviceIndex device);

// Recording and snapshots, of all devices. Times of traces are nanoseconds since
// the epoch.
struct MemorySnapshot {
  std::vector<c10::CachingDeviceAllocator::SegmentInfo> segments;
  std::vector<std::vector<TraceEntry>> device_traces;
};
void record_memory_history(const TraceOptions& options, bool clear);
MemorySnapshot memory_snapshot(std::optional<c10::MempoolId_t> pool, bool with_traces);
// The stack recorded for the live allocation that starts at `address`, or null.
std::shared_ptr<c10::GatheredContext> allocation_context(const void* address);

}  // namespace torch_trainium
