// What a boxed kernel needs to know of an operator's schema, and how it walks the
// tensors among boxed arguments.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

#include "aten/determinism.h"
#include "aten/host_engine.h"
#include "aten/operator_record.h"

namespace torch_trainium {

inline constexpr int kNewResult = -1;

// Read once for each operator.
struct Signature {
  OperatorRecord& record;
  CpuOperands cpu_operands;
  NondeterminismCheck is_nondeterministic;
  bool is_foreach;  // and has a kernel that takes tensor by tensor
  size_t arguments;
  size_t returns;
  std::vector<size_t> tensors;        // arguments that hold tensors, or lists of them: operands
  std::vector<bool> is_written;       // per operand
  std::vector<int> returned_operand;  // per return: the operand it is, or kNewResult
  std::optional<size_t> dtype;        // the argument that names a dtype to compute or return
  std::optional<size_t> deciding;     // the argument that decides whether a call falls back
  bool returns_values = false;        // numbers that the host waits for

  explicit Signature(const c10::OperatorHandle& op);

  // What a call's arguments say for it.
  std::optional<c10::ScalarType> dtype_in(c10::ArrayRef<c10::IValue> given) const;
  // The use that they make of the operator, or null where it is like others.
  const UseClassification* use_in(c10::ArrayRef<c10::IValue> given) const;
};

// "aten::add.Tensor"
std::string qualified_name(const c10::OperatorHandle& op);

// Whether a type is a tensor, or an optional or list of them.
bool holds_tensors(const c10::TypePtr& type);

// Whether some result shares memory with an operand that is not written.
bool returns_views(const c10::FunctionSchema& schema);

// Raises where the operator is nondeterministic and the user asked for none of those.
void alert_if_nondeterministic(const Signature& signature, c10::ArrayRef<c10::IValue> arguments);

// Counts a call, and shows it to whoever asked to see calls.
void note_boxed_call(const Signature& signature, c10::ArrayRef<c10::IValue> operands);

// Where to run: the device of the first operand that is on one.
c10::DeviceIndex device_of_operands(c10::ArrayRef<c10::IValue> operands);

template <typename Visit>
void for_each_tensor(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList()) visit(tensor);
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isTensor()) visit(element.toTensor());
    }
  }
}

template <typename Map>
c10::IValue map_tensors(const c10::IValue& value, Map&& map) {
  if (value.isTensor()) return map(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> mapped;
    mapped.reserve(value.toTensorList().size());
    for (const at::Tensor& tensor : value.toTensorList()) mapped.push_back(map(tensor));
    return mapped;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> mapped;
    for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList()) {
      mapped.push_back(tensor ? std::make_optional(map(*tensor)) : std::nullopt);
    }
    return mapped;
  }
  return value;
}

}  // namespace torch_trainium
