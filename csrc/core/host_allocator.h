// Pinned host memory.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

#include <cstddef>

namespace torch_trainium {

// Whether `ptr` lies in memory of the pinned allocator.
bool is_pinned_host_pointer(const void* ptr);

at::HostAllocator* pinned_host_allocator();

// How much of the pinned memory is locked in RAM. Locking is subject to the
// process's limit (ulimit -l); beyond it memory counts as pinned all the same:
// it is reused by the same rules, and the emulated device needs no DMA.
size_t locked_host_bytes();

}  // namespace torch_trainium
