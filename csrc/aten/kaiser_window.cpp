#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/special_i0.h>
#include <torch/library.h>

namespace torch_trainium {
namespace {

// I0(beta * sqrt(1 - x^2)) / I0(beta) for x from -1 to 1. PyTorch's own asks for a kernel
// that only the devices in its source tree can have; its other windows are operators.
at::Tensor kaiser_window(int64_t length, bool periodic, double beta,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  const at::TensorOptions options = at::TensorOptions()
                                        .dtype(c10::dtype_or_default(dtype))
                                        .layout(layout)
                                        .device(device)
                                        .pinned_memory(pin_memory);
  TORCH_CHECK(options.layout() != at::kSparse,
              "kaiser_window is not implemented for sparse types, "
              "got: layout=",
              options.layout());
  const at::ScalarType type = c10::typeMetaToScalarType(options.dtype());
  TORCH_CHECK(at::isFloatingType(type) || at::isComplexType(type),
              "kaiser_window expects floating point dtypes, got: dtype=", type);
  TORCH_CHECK(length >= 0,
              "kaiser_window requires non-negative window_length, got window_length=", length);
  if (length <= 1) return at::ones({length}, options);
  const int64_t points = periodic ? length + 1 : length;
  const at::Tensor x =
      at::arange(length, options).mul(2.0 / static_cast<double>(points - 1)).sub(1);
  const at::Tensor y = at::clamp_min(1 - x * x, 0).sqrt().mul(beta);
  const at::Tensor most = at::special_i0(at::full({}, beta, options.device(at::kCPU)));
  return at::special_i0(y).div(most.item());
}

constexpr double kDefaultBeta = 12.0;

at::Tensor kaiser_window_default(int64_t length, std::optional<at::ScalarType> dtype,
                                 std::optional<at::Layout> layout,
                                 std::optional<c10::Device> device,
                                 std::optional<bool> pin_memory) {
  return kaiser_window(length, /*periodic=*/true, kDefaultBeta, dtype, layout, device, pin_memory);
}

at::Tensor kaiser_window_periodic(int64_t length, bool periodic,
                                  std::optional<at::ScalarType> dtype,
                                  std::optional<at::Layout> layout,
                                  std::optional<c10::Device> device,
                                  std::optional<bool> pin_memory) {
  return kaiser_window(length, periodic, kDefaultBeta, dtype, layout, device, pin_memory);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("kaiser_window", TORCH_FN(kaiser_window_default));
  m.impl("kaiser_window.periodic", TORCH_FN(kaiser_window_periodic));
  m.impl("kaiser_window.beta", TORCH_FN(kaiser_window));
}

}  // namespace torch_trainium
