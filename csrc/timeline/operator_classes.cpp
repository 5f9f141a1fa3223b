#include "timeline/operator_classes.h"

#include <algorithm>
#include <iterator>

namespace torch_trainium::timeline {
namespace {

struct Row {
  std::string_view name;
  CostClass cost_class;
};

constexpr Row kRows[] = {
#include "operator_classes.inc"
};

const Row* find(std::string_view name) {
  const Row* row =
      std::lower_bound(std::begin(kRows), std::end(kRows), name,
                       [](const Row& row, std::string_view name) { return row.name < name; });
  return row != std::end(kRows) && row->name == name ? row : nullptr;
}

}  // namespace

CostClass cost_class_of(std::string_view qualified_name) {
  const Row* row = find(qualified_name);
  return row ? row->cost_class : CostClass::kCpuFallback;
}

bool is_listed(std::string_view qualified_name) { return find(qualified_name) != nullptr; }

}  // namespace torch_trainium::timeline
