// The numbers by which device work names its operator.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace torch_trainium {

// The number of an operator such as "aten::add.Tensor", the same for every call.
uint32_t operator_id(std::string_view qualified_name);
// The name behind a number that `operator_id` gave. It lives for ever.
const std::string& operator_name(uint32_t id);

}  // namespace torch_trainium
