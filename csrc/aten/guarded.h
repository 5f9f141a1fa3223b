// PyTorch's device-independent functions as kernels for the device: they make
// what they make on the current device, so that of their operands becomes current.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <optional>
#include <utility>

#include "core/device.h"

namespace torch_trainium {
namespace detail {

template <typename T>
std::optional<c10::Device> named_device(const T& /*argument*/) {
  return std::nullopt;
}
inline std::optional<c10::Device> named_device(const at::Tensor& tensor) {
  return tensor.defined() ? std::make_optional(tensor.device()) : std::nullopt;
}
inline std::optional<c10::Device> named_device(const std::optional<c10::Device>& device) {
  return device && device->has_index() ? device : std::nullopt;
}

}  // namespace detail

template <auto Function>
struct Guarded;

template <typename Result, typename... Arguments, Result (*Function)(Arguments...)>
struct Guarded<Function> {
  static Result call(Arguments... arguments) {
    std::optional<c10::Device> device;
    const auto consider = [&](const std::optional<c10::Device>& named) {
      if (!device && named && named->type() == kNeuron) device = named;
    };
    (consider(detail::named_device(arguments)), ...);
    const c10::OptionalDeviceGuard guard(device);
    return Function(std::forward<Arguments>(arguments)...);
  }
};

}  // namespace torch_trainium

#define NEURON_GUARDED(library, overload, function) \
  (library).impl(overload, TORCH_FN((::torch_trainium::Guarded<&(function)>::call)))
