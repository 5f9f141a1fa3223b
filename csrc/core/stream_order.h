// The ways in which a program orders the work of its streams: each acts on the
// runtime and is shown to the order observer. The allocator's own events are the
// runtime's business alone: they say nothing of what the program waits for.
#pragma once

#include <c10/core/Stream.h>

#include "runtime/order_observer.h"

namespace torch_trainium {

void record_event(void* event, c10::Stream stream);
void destroy_event(void* event) noexcept;
void wait_event(void* event, c10::Stream stream);
bool query_event(void* event);
void synchronize_event(void* event);
bool query_stream(c10::Stream stream);
void synchronize_stream(c10::Stream stream);
void synchronize_device(c10::DeviceIndex device);

// What the allocator does with a block of device memory.
void note_memory_recorded(const std::byte* begin, size_t bytes, runtime::StreamName stream);
void note_memory_freed(const std::byte* begin, size_t bytes, runtime::StreamName owner);

}  // namespace torch_trainium
