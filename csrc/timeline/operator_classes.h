// The cost class of an operator, by its name. The table is generated from
// hardware/data/operator_classes.toml when the extension is built.
#pragma once

#include <string_view>

#include "timeline/cost_class.h"

namespace torch_trainium::timeline {

// `qualified_name` is "aten::add.Tensor", or "aten::relu" where the overload has no name.
// The compiler knows no operator but the listed ones, so any other runs on the host.
CostClass cost_class_of(std::string_view qualified_name);

bool is_listed(std::string_view qualified_name);

}  // namespace torch_trainium::timeline
