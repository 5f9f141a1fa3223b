// The custom call `torch_trainium.store`, through which programs write their results.
#pragma once

#include <cstdint>

namespace torch_trainium::xla_cpu {

// XLA's handler: the first operand holds the addresses to write the others to.
void* store_handler();

// Bytes that it copied out of XLA's buffers so far.
uint64_t bytes_stored();

}  // namespace torch_trainium::xla_cpu
