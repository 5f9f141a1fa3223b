// Scaled dot-product attention: fused where PyTorch fuses it on the CPU.
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "aten/host_engine.h"

namespace torch_trainium {
namespace {

using at::Tensor;

// The choice depends on shapes, dtypes and settings only, so that of the CPU holds.
int64_t choose_backend(const Tensor& query, const Tensor& key, const Tensor& value,
                       const std::optional<Tensor>& mask, double dropout, bool is_causal,
                       std::optional<double> scale, bool enable_gqa) {
  const auto choice = static_cast<sdp::SDPBackend>(at::_ops::_fused_sdp_choice::redispatch(
      c10::DispatchKeySet(c10::DispatchKey::CPU), query, key, value, mask, dropout, is_causal,
      scale, enable_gqa));
  // The fused operator takes one key head per query head.
  const bool fused = choice == sdp::SDPBackend::flash_attention && !enable_gqa;
  return static_cast<int64_t>(fused ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

using Forward =
    std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

Forward attention(const Tensor& query, const Tensor& key, const Tensor& value,
                  const std::optional<Tensor>& bias, double dropout, bool is_causal,
                  bool /*return_debug_mask*/, std::optional<double> scale) {
  static OperatorRecord& record =
      operator_record("aten::_scaled_dot_product_fused_attention_overrideable");
  note_call(record, query, key, value);
  HostCall call(record, query.device().index(), CpuOperands::kNone);
  const Tensor host_query = call.alias(query);
  const Tensor host_key = call.alias(key);
  const Tensor host_value = call.alias(value);
  const auto host_bias = bias ? std::make_optional(call.alias(*bias)) : std::nullopt;
  std::tuple<Tensor, Tensor> result;
  call.run([&] {
    result = at::_ops::_scaled_dot_product_flash_attention_for_cpu::call(
        host_query, host_key, host_value, dropout, is_causal, host_bias, scale);
  });
  // There is no dropout in the fused operator, hence no random state to keep.
  const auto none = [&] { return at::empty({0}, query.options().dtype(at::kLong)); };
  Tensor output = call.adopt(std::move(std::get<0>(result)));
  Tensor logsumexp = call.adopt(std::move(std::get<1>(result)));
  return {std::move(output),
          std::move(logsumexp),
          none(),
          none(),
          query.size(2),
          key.size(2),
          none(),
          none(),
          none()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_backward(
    const Tensor& grad_out, const Tensor& query, const Tensor& key, const Tensor& value,
    const Tensor& bias, std::array<bool, 4> /*grad_input_mask*/, const Tensor& out,
    const Tensor& logsumexp, const Tensor& /*cum_seq_q*/, const Tensor& /*cum_seq_k*/,
    c10::SymInt /*max_q*/, c10::SymInt /*max_k*/, double dropout, bool is_causal,
    const Tensor& /*philox_seed*/, const Tensor& /*philox_offset*/, std::optional<double> scale) {
  static OperatorRecord& record =
      operator_record("aten::_scaled_dot_product_fused_attention_overrideable_backward");
  note_call(record, grad_out, query, key, value);
  HostCall call(record, query.device().index(), CpuOperands::kNone);
  const auto host_bias = bias.defined() ? std::make_optional(call.alias(bias)) : std::nullopt;
  std::tuple<Tensor, Tensor, Tensor> result;
  {
    const Tensor host_grad = call.alias(grad_out);
    const Tensor host_query = call.alias(query);
    const Tensor host_key = call.alias(key);
    const Tensor host_value = call.alias(value);
    const Tensor host_out = call.alias(out);
    const Tensor host_logsumexp = call.alias(logsumexp);
    call.run([&] {
      result = at::_ops::_scaled_dot_product_flash_attention_for_cpu_backward::call(
          host_grad, host_query, host_key, host_value, host_out, host_logsumexp, dropout, is_causal,
          host_bias, scale);
    });
  }
  auto& [grad_query, grad_key, grad_value] = result;
  // A bias that needs a gradient is never fused (choose_backend).
  return {call.adopt(std::move(grad_query)), call.adopt(std::move(grad_key)),
          call.adopt(std::move(grad_value)), Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_scaled_dot_product_fused_attention_overrideable", TORCH_FN(attention));
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", TORCH_FN(attention_backward));
}

}  // namespace torch_trainium

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &torch_trainium::choose_backend)
}  // namespace at::native
