// Tensors of PyTorch's legacy quantized dtypes (qint8 and the like) exist on the
// CPU only. What would make one on the device says so, and what to do instead.
#include <ATen/core/stack.h>
#include <torch/library.h>

namespace torch_trainium {
namespace {

void refuse_quantized(const c10::OperatorHandle& op, torch::jit::Stack* /*stack*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      "The neuron device does not support the quantized dtypes (qint8, quint8, qint32, "
      "...) that '",
      op.operator_name(),
      "' takes or returns. Keep integer values and their scales in ordinary tensors (for example "
      "with torchao), use fake quantization, or dequantize() on the CPU before moving.");
}

}  // namespace

TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_quantized>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* makes_quantized :
       {"quantize_per_tensor", "quantize_per_tensor.tensor_qparams", "quantize_per_tensor.tensors",
        "quantize_per_tensor_dynamic", "quantize_per_channel", "_make_per_tensor_quantized_tensor",
        "_make_per_channel_quantized_tensor"}) {
    m.impl(makes_quantized, torch::CppFunction::makeFromBoxedFunction<&refuse_quantized>());
  }
}

}  // namespace torch_trainium
