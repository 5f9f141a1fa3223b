#include "aten/signature.h"

#include <ATen/Context.h>

#include <optional>
#include <vector>

#include "aten/operator_traits.h"
#include "core/device.h"

namespace torch_trainium {

bool holds_tensors(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return true;
    case c10::TypeKind::OptionalType:
    case c10::TypeKind::ListType:
      return holds_tensors(type->containedType(0));
    default:
      return false;
  }
}

std::string qualified_name(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

Signature::Signature(const c10::OperatorHandle& op)
    : record(operator_record(qualified_name(op))),
      cpu_operands(cpu_operands_of(record.name)),
      is_nondeterministic(nondeterminism_check(record.name)),
      is_foreach(record.name.rfind("aten::_foreach_", 0) == 0 &&
                 op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd)),
      arguments(op.schema().arguments().size()),
      returns(op.schema().returns().size()) {
  const c10::FunctionSchema& schema = op.schema();
  for (size_t i = 0; i < arguments; ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (argument.name() == "dtype" &&
        argument.real_type()->isSubtypeOf(*c10::OptionalType::create(c10::ScalarTypeType::get()))) {
      dtype = i;
    }
    if (argument.name() == record.classification.deciding_argument) deciding = i;
    if (!holds_tensors(argument.type())) continue;
    tensors.push_back(i);
    is_written.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
  }
  for (const c10::Argument& result : schema.returns()) {
    returns_values = returns_values || !holds_tensors(result.type());
    int operand = kNewResult;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!is_written[i]) continue;
      const c10::AliasInfo& written_to = *schema.arguments()[tensors[i]].alias_info();
      if (result.alias_info() != nullptr &&
          written_to.beforeSet() == result.alias_info()->beforeSet()) {
        operand = static_cast<int>(i);
      }
    }
    returned_operand.push_back(operand);
  }
}

std::optional<c10::ScalarType> Signature::dtype_in(c10::ArrayRef<c10::IValue> given) const {
  if (!dtype || given[*dtype].isNone()) return std::nullopt;
  return given[*dtype].toScalarType();
}

const UseClassification* Signature::use_in(c10::ArrayRef<c10::IValue> given) const {
  if (C10_LIKELY(!deciding)) return nullptr;
  const c10::IValue& argument = given[*deciding];
  const std::string value =
      argument.isString() ? argument.toStringRef() : (argument.toBool() ? "True" : "False");
  for (const UseClassification& use : record.classification.uses) {
    if (use.value == value) return &use;
  }
  return nullptr;
}

bool returns_views(const c10::FunctionSchema& schema) {
  for (const c10::Argument& result : schema.returns()) {
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return true;
  }
  return false;
}

void alert_if_nondeterministic(const Signature& signature, c10::ArrayRef<c10::IValue> arguments) {
  if (C10_UNLIKELY(signature.is_nondeterministic != nullptr) &&
      at::globalContext().deterministicAlgorithms() && signature.is_nondeterministic(arguments)) {
    at::globalContext().alertNotDeterministic(signature.record.name + " on neuron");
  }
}

void note_boxed_call(const Signature& signature, c10::ArrayRef<c10::IValue> operands) {
  signature.record.calls.fetch_add(1, std::memory_order_relaxed);
  if (C10_LIKELY(!operators_are_observed())) return;
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& operand : operands) {
    for_each_tensor(operand, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  }
  std::vector<const at::TensorBase*> pointers;
  for (const at::Tensor& tensor : tensors) pointers.push_back(&tensor);
  detail::observe(signature.record, pointers);
}

c10::DeviceIndex device_of_operands(c10::ArrayRef<c10::IValue> operands) {
  std::optional<c10::DeviceIndex> device;
  for (const c10::IValue& operand : operands) {
    for_each_tensor(operand, [&](const at::Tensor& tensor) {
      if (!device && tensor.defined() && tensor.device().type() == kNeuron) {
        device = tensor.device().index();
      }
    });
    if (device) return *device;
  }
  return current_device();
}

}  // namespace torch_trainium
