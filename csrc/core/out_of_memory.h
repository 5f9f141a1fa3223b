// The error raised when a device or the host runs out of memory.
#pragma once

#include "core/device_heap.h"

namespace torch_trainium {

// Raises c10::OutOfMemoryError.
[[noreturn]] void raise_out_of_memory(const MemoryRequest& request, DeviceHeap& heap,
                                      runtime::AllocationStatus status);
// For requests that no machine could serve.
[[noreturn]] void raise_absurd_request(size_t bytes);

}  // namespace torch_trainium
