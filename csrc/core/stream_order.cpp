#include "core/stream_order.h"

#include "core/host_time.h"

namespace torch_trainium {
namespace {

using runtime::OrderObserver;
using runtime::StreamName;

StreamName name_of(c10::Stream stream) { return {stream.device_index(), stream.id()}; }

OrderObserver* observer() { return runtime::order_observer.load(std::memory_order_acquire); }

const std::byte* host_address(const std::byte* device_address) {
  return device_address + runtime::get().host_offset();
}

}  // namespace

void record_event(void* event, c10::Stream stream) {
  timed_runtime().record_event(event, stream.device_index(), stream.id());
  if (auto* order = observer()) order->event_recorded(event, name_of(stream));
}

void destroy_event(void* event) noexcept {
  if (auto* order = observer()) order->event_destroyed(event);
  runtime::get().destroy_event(event);
}

void wait_event(void* event, c10::Stream stream) {
  timed_runtime().wait_event(event, stream.device_index(), stream.id());
  if (auto* order = observer()) order->stream_waits(name_of(stream), event);
}

bool query_event(void* event) {
  const bool is_done = timed_runtime().query_event(event);
  if (auto* order = observer(); order != nullptr && is_done) order->host_passed_event(event);
  return is_done;
}

void synchronize_event(void* event) {
  timed_runtime().synchronize_event(event);
  if (auto* order = observer()) order->host_passed_event(event);
}

bool query_stream(c10::Stream stream) {
  const bool is_done = timed_runtime().query_stream(stream.device_index(), stream.id());
  if (auto* order = observer(); order != nullptr && is_done) {
    order->host_passed_stream(name_of(stream));
  }
  return is_done;
}

void synchronize_stream(c10::Stream stream) {
  timed_runtime().synchronize_stream(stream.device_index(), stream.id());
  if (auto* order = observer()) order->host_passed_stream(name_of(stream));
}

void synchronize_device(c10::DeviceIndex device) {
  timed_runtime().synchronize_device(device);
  if (auto* order = observer()) order->host_passed_device(device);
}

void note_memory_recorded(const std::byte* begin, size_t bytes, StreamName stream) {
  if (auto* order = observer()) order->memory_recorded(host_address(begin), bytes, stream);
}

void note_memory_freed(const std::byte* begin, size_t bytes, StreamName owner) {
  if (auto* order = observer()) order->memory_freed(host_address(begin), bytes, owner);
}

}  // namespace torch_trainium
