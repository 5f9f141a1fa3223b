// How much memory this process can still commit on the host.
#pragma once

#include <cstddef>

namespace torch_trainium::runtime {

// The smaller of the kernel's MemAvailable and what the process's control group
// has left; SIZE_MAX where neither can be read.
size_t available_host_bytes();

}  // namespace torch_trainium::runtime
