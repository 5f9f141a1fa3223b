// Guard mode: host code that touches device memory faults; this says where.
#pragma once

#include <cstddef>

namespace torch_trainium::runtime {

// Makes a SIGSEGV inside [base, base + bytes) print the device address and the
// native stack, then act as before (a Python fault handler adds its own stack).
void report_device_faults(std::byte* base, size_t bytes, size_t bytes_per_device);

}  // namespace torch_trainium::runtime
