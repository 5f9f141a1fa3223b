// Convolutions enter at the level at which autograd sees them, so that backend
// selection, dilation and grouping are those of the CPU.
#include "aten/host_kernel.h"

#include <ATen/ops/convolution_backward_native.h>
#include <ATen/ops/convolution_backward_ops.h>
#include <ATen/ops/convolution_native.h>
#include <ATen/ops/convolution_ops.h>
#include <torch/library.h>

namespace torch_trainium {
namespace {

using at::Tensor;

Tensor convolution_overrideable(const Tensor& input, const Tensor& weight,
                                const std::optional<Tensor>& bias, at::SymIntArrayRef stride,
                                at::SymIntArrayRef padding, at::SymIntArrayRef dilation,
                                bool transposed, at::SymIntArrayRef output_padding,
                                c10::SymInt groups) {
  return at::_ops::convolution::call(input, weight, bias, stride, padding, dilation, transposed,
                                     output_padding, std::move(groups));
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward_overrideable(
    const Tensor& grad_output, const Tensor& input, const Tensor& weight, at::SymIntArrayRef stride,
    at::SymIntArrayRef padding, at::SymIntArrayRef dilation, bool transposed,
    at::SymIntArrayRef output_padding, c10::SymInt groups, std::array<bool, 3> output_mask) {
  const auto bias_sizes = std::nullopt;  // only a backend that asked for them needs them
  return at::_ops::convolution_backward::call(grad_output, input, weight, bias_sizes, stride,
                                              padding, dilation, transposed, output_padding,
                                              std::move(groups), output_mask);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  NEURON_HOST_KERNEL(m, "convolution", &at::native::convolution);
  NEURON_HOST_KERNEL(m, "convolution_backward", &at::native::convolution_backward);
  m.impl("convolution_overrideable", TORCH_FN(convolution_overrideable));
  m.impl("convolution_backward_overrideable", TORCH_FN(convolution_backward_overrideable));
}

}  // namespace torch_trainium
