#include "aten/operator_record.h"

#include <c10/core/ScalarType.h>

#include <deque>
#include <memory>
#include <mutex>
#include <sstream>
#include <unordered_map>

#include "core/operator_names.h"
#include "timeline/operator_classes.h"

namespace torch_trainium {
namespace {

struct Registry {
  std::mutex mutex;
  std::deque<OperatorRecord> records;  // stable addresses
  std::unordered_map<std::string, OperatorRecord*> by_name;
  ShapeCounts shapes;
  bool record_shapes = false;
  std::shared_ptr<const OperatorLog> log;
};

Registry& registry() {
  static auto* instance = new Registry;  // kernels may run after static destructors
  return *instance;
}

runtime::WorkKind work_kind(timeline::CostClass cost_class) {
  using timeline::CostClass;
  switch (cost_class) {
    case CostClass::kFill:
      return runtime::WorkKind::kFill;
    case CostClass::kCopy:
    case CostClass::kTransfer:
    case CostClass::kHostRead:
      return runtime::WorkKind::kCopy;
    default:
      return runtime::WorkKind::kKernel;
  }
}

std::string describe(c10::ArrayRef<const at::TensorBase*> operands) {
  std::ostringstream text;
  const char* separator = "";
  for (const at::TensorBase* operand : operands) {
    text << separator;
    separator = ", ";
    if (!operand->defined()) {
      text << "None";
      continue;
    }
    text << c10::toString(operand->scalar_type()) << operand->sizes();
    if (operand->is_cpu()) text << "@cpu";
  }
  return text.str();
}

}  // namespace

namespace detail {

std::atomic<bool> operators_observed{false};

void observe(const OperatorRecord& record, c10::ArrayRef<const at::TensorBase*> operands) {
  const std::string description = describe(operands);
  std::shared_ptr<const OperatorLog> log;
  {
    const std::lock_guard lock(registry().mutex);
    if (registry().record_shapes) ++registry().shapes[record.name][description];
    log = registry().log;
  }
  if (log) (*log)(record.name, description);
}

}  // namespace detail

OperatorRecord& operator_record(std::string_view qualified_name) {
  const std::lock_guard lock(registry().mutex);
  const std::string name(qualified_name);
  OperatorRecord*& record = registry().by_name[name];
  if (record == nullptr) {
    record = &registry().records.emplace_back();
    record->name = name;
    record->id = operator_id(name);
    record->cost_class = timeline::cost_class_of(name);
    record->work_kind = work_kind(record->cost_class);
    record->classification = classification_of(name);
    record->fallback_dtypes = record->classification.fallback;
    for (const UseClassification& use : record->classification.uses) {
      record->fallback_dtypes |= use.fallback;
    }
    record->missing_dtypes = missing_dtypes();
  }
  return *record;
}

std::map<std::string, uint64_t> executed_operators() {
  const std::lock_guard lock(registry().mutex);
  std::map<std::string, uint64_t> executed;
  for (const OperatorRecord& record : registry().records) {
    if (const uint64_t calls = record.calls.load()) executed[record.name] = calls;
  }
  return executed;
}

void reset_executed_operators() {
  const std::lock_guard lock(registry().mutex);
  for (OperatorRecord& record : registry().records) record.calls.store(0);
  registry().shapes.clear();
}

void record_operator_shapes(bool enabled) {
  const std::lock_guard lock(registry().mutex);
  registry().record_shapes = enabled;
  detail::operators_observed.store(enabled || registry().log != nullptr);
}

ShapeCounts executed_operator_shapes() {
  const std::lock_guard lock(registry().mutex);
  return registry().shapes;
}

void set_operator_log(OperatorLog log) {
  const std::lock_guard lock(registry().mutex);
  registry().log = log ? std::make_shared<const OperatorLog>(std::move(log)) : nullptr;
  detail::operators_observed.store(registry().record_shapes || registry().log != nullptr);
}

}  // namespace torch_trainium
