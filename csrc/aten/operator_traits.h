// What the schema does not say about an operator.
#pragma once

#include <string_view>

#include "aten/host_engine.h"

namespace torch_trainium {

// Which CPU operands an operator takes beside device operands, as on CUDA.
CpuOperands cpu_operands_of(std::string_view qualified_name);

// Operators that the boxed kernel must leave to their composite implementation.
bool stays_composite(std::string_view qualified_name);

}  // namespace torch_trainium
