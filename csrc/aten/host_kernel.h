// A kernel for the device out of one of PyTorch's CPU functions, without boxing:
//
//   m.impl("mul.Tensor", TORCH_FN((HostKernel<"aten::mul.Tensor", &at::cpu::mul>::call)));
#pragma once

#include <ATen/core/IListRef.h>

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <vector>

#include "aten/host_engine.h"
#include "aten/operator_traits.h"

namespace torch_trainium {

// An operator's qualified name as a template argument.
template <size_t N>
struct OperatorNameLiteral {
  char text[N];
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr OperatorNameLiteral(const char (&literal)[N]) { std::copy_n(literal, N, text); }
  constexpr std::string_view view() const { return {text, N - 1}; }
};

namespace detail {

// Device of an operand, or -1. Arguments that hold no tensor have none.
template <typename T>
c10::DeviceIndex operand_device(const T& /*argument*/) {
  return -1;
}
inline c10::DeviceIndex operand_device(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_privateuseone() ? tensor.device().index()
                                                       : c10::DeviceIndex(-1);
}
inline c10::DeviceIndex operand_device(const std::optional<at::Tensor>& tensor) {
  return tensor ? operand_device(*tensor) : c10::DeviceIndex(-1);
}
inline c10::DeviceIndex operand_device(const at::ITensorListRef& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (const c10::DeviceIndex device = operand_device(tensor); device >= 0) return device;
  }
  return -1;
}
inline c10::DeviceIndex operand_device(at::TensorList tensors) {
  return operand_device(at::ITensorListRef(tensors));
}

struct LentList {
  std::vector<at::Tensor> tensors;
  operator at::TensorList() const { return tensors; }        // NOLINT
  operator at::ITensorListRef() const { return {tensors}; }  // NOLINT
};

template <typename T>
const T& lend(HostCall& /*call*/, const T& argument) {
  return argument;
}
inline at::Tensor lend(HostCall& call, const at::Tensor& tensor) { return call.alias(tensor); }
inline const std::optional<at::ScalarType>& lend(HostCall& call,
                                                 const std::optional<at::ScalarType>& dtype) {
  if (dtype) call.add_dtype(*dtype);
  return dtype;
}
// What a function takes by mutable reference, it writes.
inline at::Tensor lend(HostCall& call, at::Tensor& tensor) { return call.alias_written(tensor); }
inline std::optional<at::Tensor> lend(HostCall& call, const std::optional<at::Tensor>& tensor) {
  return tensor ? std::make_optional(call.alias(*tensor)) : std::nullopt;
}
inline LentList lend(HostCall& call, const at::ITensorListRef& tensors) {
  LentList lent;
  for (const at::Tensor& tensor : tensors) lent.tensors.push_back(call.alias(tensor));
  return lent;
}
inline LentList lend(HostCall& call, at::TensorList tensors) {
  return lend(call, at::ITensorListRef(tensors));
}

// Adds pointers to the tensors of an argument, for those who watch.
template <typename T>
void append_operands(std::vector<const at::TensorBase*>& /*list*/, const T& /*argument*/) {}
inline void append_operands(std::vector<const at::TensorBase*>& list, const at::Tensor& tensor) {
  list.push_back(&tensor);
}
inline void append_operands(std::vector<const at::TensorBase*>& list,
                            const std::optional<at::Tensor>& tensor) {
  if (tensor) list.push_back(&*tensor);
}
inline void append_operands(std::vector<const at::TensorBase*>& list,
                            const at::ITensorListRef& tensors) {
  for (const at::Tensor& tensor : tensors) list.push_back(&tensor);
}

// The tensor an in-place or out= operator returns: its only mutable operand.
template <typename First, typename... Rest>
at::Tensor& written_operand(First&& first, Rest&&... rest) {
  if constexpr (std::is_same_v<First, at::Tensor&>) {
    return first;
  } else {
    return written_operand(std::forward<Rest>(rest)...);
  }
}

inline at::Tensor adopt_all(HostCall& call, at::Tensor&& result) {
  return call.adopt(std::move(result));
}
template <typename... Results>
std::tuple<Results...> adopt_all(HostCall& call, std::tuple<Results...>&& results) {
  return std::apply(
      [&](auto&... result) { return std::tuple<Results...>{call.adopt(std::move(result))...}; },
      results);
}
inline void add_results(HostCall& call, const at::Tensor& result) { call.add_result(result); }
template <typename... Results>
void add_results(HostCall& call, const std::tuple<Results...>& results) {
  std::apply([&](const auto&... result) { (call.add_result(result), ...); }, results);
}

template <typename T>
T adopt_all(HostCall& /*call*/, T&& result) {
  return std::forward<T>(result);
}

}  // namespace detail

template <OperatorNameLiteral Name, auto Function>
struct HostKernel;

template <OperatorNameLiteral Name, typename Result, typename... Arguments,
          Result (*Function)(Arguments...)>
struct HostKernel<Name, Function> {
  static Result call(Arguments... arguments) {
    static OperatorRecord& record = operator_record(Name.view());
    static const CpuOperands cpu_operands = cpu_operands_of(Name.view());
    record.calls.fetch_add(1, std::memory_order_relaxed);
    if (C10_UNLIKELY(operators_are_observed())) {
      std::vector<const at::TensorBase*> operands;
      (detail::append_operands(operands, arguments), ...);
      detail::observe(record, operands);
    }
    HostCall call(record, device_of(arguments...), cpu_operands);
    // Braces lend the operands in the order of the arguments; parentheses would not.
    auto lent =
        std::tuple<decltype(detail::lend(call, arguments))...>{detail::lend(call, arguments)...};
    if constexpr (std::is_same_v<Result, at::Tensor&>) {
      call.run([&] { std::apply(Function, lent); });
      at::Tensor& written =
          detail::written_operand<Arguments...>(std::forward<Arguments>(arguments)...);
      call.write_back(written);
      return written;
    } else {
      Result result;
      call.run([&] {
        result = std::apply(Function, lent);
        detail::add_results(call, result);
      });
      return detail::adopt_all(call, std::move(result));
    }
  }

 private:
  static c10::DeviceIndex device_of(const Arguments&... arguments) {
    c10::DeviceIndex device = -1;
    ((device = device >= 0 ? device : detail::operand_device(arguments)), ...);
    return device >= 0 ? device : current_device();
  }
};

}  // namespace torch_trainium

// One row of a registration table: the overload and the CPU function it runs.
#define NEURON_HOST_KERNEL(library, overload, function) \
  (library).impl(overload,                              \
                 TORCH_FN((::torch_trainium::HostKernel<"aten::" overload, function>::call)))
