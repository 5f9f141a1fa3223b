// Whoever wants to see what a program does to order the work of its streams, and
// what becomes of the memory that the work uses.
#pragma once

#include <atomic>
#include <cstddef>

#include "runtime/runtime.h"

namespace torch_trainium::runtime {

struct StreamName {
  int device;
  StreamId id;

  bool operator==(const StreamName&) const = default;
};

// Events are named by the runtime's handle, memory by where the host finds it.
class OrderObserver {
 public:
  virtual void event_recorded(const void* event, StreamName stream) noexcept = 0;
  virtual void event_destroyed(const void* event) noexcept = 0;
  virtual void stream_waits(StreamName stream, const void* event) noexcept = 0;
  // The host has waited, or has asked and heard that nothing is left to wait for.
  virtual void host_passed_event(const void* event) noexcept = 0;
  virtual void host_passed_stream(StreamName stream) noexcept = 0;
  virtual void host_passed_device(int device) noexcept = 0;

  // Once freed, the memory may be used again after what `stream` does until then.
  virtual void memory_recorded(const std::byte* begin, size_t bytes,
                               StreamName stream) noexcept = 0;
  // The memory goes back to the stream it was allocated for.
  virtual void memory_freed(const std::byte* begin, size_t bytes, StreamName owner) noexcept = 0;
  // It goes back to the device, where nothing uses it any more.
  virtual void memory_released(const std::byte* begin, size_t bytes) noexcept = 0;

 protected:
  ~OrderObserver() = default;
};

// May be called until some time after its removal, so it lives for ever.
inline std::atomic<OrderObserver*> order_observer{nullptr};

}  // namespace torch_trainium::runtime
