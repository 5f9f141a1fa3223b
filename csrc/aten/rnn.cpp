// Fused recurrent cells, which PyTorch picks for every device but the CPU. Gate
// order and workspaces are those of the CUDA kernels, so that PyTorch's
// derivatives of them hold.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/chunk.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "aten/host_engine.h"

namespace torch_trainium {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

constexpr int64_t kGateDim = 1;

Tensor lend(HostCall& call, const OptionalTensor& tensor) {
  return tensor && tensor->defined() ? call.alias(*tensor) : Tensor();
}

Tensor with_bias(const Tensor& gates, const Tensor& bias) {
  return bias.defined() ? gates + bias : gates;
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                             const Tensor& cx, const OptionalTensor& input_bias,
                                             const OptionalTensor& hidden_bias) {
  static OperatorRecord& record = operator_record("aten::_thnn_fused_lstm_cell");
  note_call(record, input_gates, hidden_gates, cx);
  HostCall call(record, input_gates.device().index(), CpuOperands::kNone);
  Tensor hy, cy, workspace;
  call.run([&] {
    const Tensor gates = with_bias(call.alias(hidden_gates), lend(call, hidden_bias)) +
                         with_bias(call.alias(input_gates), lend(call, input_bias));
    const auto parts = gates.chunk(4, kGateDim);
    const Tensor in = parts[0].sigmoid();
    const Tensor forget = parts[1].sigmoid();
    const Tensor cell = parts[2].tanh();
    const Tensor out = parts[3].sigmoid();
    cy = forget * call.alias(cx) + in * cell;
    hy = out * cy.tanh();
    workspace = at::cat({in, forget, cell, out}, kGateDim);
  });
  return {call.adopt(std::move(hy)), call.adopt(std::move(cy)), call.adopt(std::move(workspace))};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor& grad_hy,
                                                      const OptionalTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy,
                                                      const Tensor& workspace, bool has_bias) {
  static OperatorRecord& record = operator_record("aten::_thnn_fused_lstm_cell_backward_impl");
  note_call(record, cx, cy, workspace);
  const auto is_given = [](const OptionalTensor& grad) { return grad && grad->defined(); };
  if (!is_given(grad_hy) && !is_given(grad_cy)) return {};
  HostCall call(record, workspace.device().index(), CpuOperands::kNone);
  Tensor grad_gates, grad_cx, grad_bias;
  call.run([&] {
    const auto parts = call.alias(workspace).chunk(4, kGateDim);
    const Tensor &in = parts[0], &forget = parts[1], &cell = parts[2], &out = parts[3];
    const Tensor tanh_cy = call.alias(cy).tanh();
    const Tensor from_hy = is_given(grad_hy) ? call.alias(*grad_hy) : at::zeros_like(tanh_cy);
    Tensor grad_cell_state = from_hy * out * (1 - tanh_cy * tanh_cy);
    if (is_given(grad_cy)) grad_cell_state = grad_cell_state + call.alias(*grad_cy);
    const Tensor grad_out = from_hy * tanh_cy * out * (1 - out);
    const Tensor grad_in = grad_cell_state * cell * in * (1 - in);
    const Tensor grad_forget = grad_cell_state * call.alias(cx) * forget * (1 - forget);
    const Tensor grad_new_cell = grad_cell_state * in * (1 - cell * cell);
    grad_gates = at::cat({grad_in, grad_forget, grad_new_cell, grad_out}, kGateDim);
    grad_cx = grad_cell_state * forget;
    if (has_bias) grad_bias = grad_gates.sum(0);
  });
  return {call.adopt(std::move(grad_gates)), call.adopt(std::move(grad_cx)),
          call.adopt(std::move(grad_bias))};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                    const Tensor& hx, const OptionalTensor& input_bias,
                                    const OptionalTensor& hidden_bias) {
  static OperatorRecord& record = operator_record("aten::_thnn_fused_gru_cell");
  note_call(record, input_gates, hidden_gates, hx);
  HostCall call(record, input_gates.device().index(), CpuOperands::kNone);
  Tensor hy, workspace;
  call.run([&] {
    const auto inputs =
        with_bias(call.alias(input_gates), lend(call, input_bias)).chunk(3, kGateDim);
    const auto hidden =
        with_bias(call.alias(hidden_gates), lend(call, hidden_bias)).chunk(3, kGateDim);
    const Tensor state = call.alias(hx);
    const Tensor reset = (inputs[0] + hidden[0]).sigmoid();
    const Tensor update = (inputs[1] + hidden[1]).sigmoid();
    const Tensor candidate = (inputs[2] + reset * hidden[2]).tanh();
    hy = (state - candidate) * update + candidate;
    workspace = at::cat({reset, update, candidate, state, hidden[2]}, kGateDim);
  });
  return {call.adopt(std::move(hy)), call.adopt(std::move(workspace))};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy,
                                                                     const Tensor& workspace,
                                                                     bool has_bias) {
  static OperatorRecord& record = operator_record("aten::_thnn_fused_gru_cell_backward");
  note_call(record, grad_hy, workspace);
  HostCall call(record, workspace.device().index(), CpuOperands::kNone);
  Tensor grad_input_gates, grad_hidden_gates, grad_hx, grad_input_bias, grad_hidden_bias;
  call.run([&] {
    const auto parts = call.alias(workspace).chunk(5, kGateDim);
    const Tensor &reset = parts[0], &update = parts[1], &candidate = parts[2], &state = parts[3];
    const Tensor& hidden_candidate = parts[4];
    const Tensor grad = call.alias(grad_hy);
    const Tensor grad_candidate = grad * (1 - update) * (1 - candidate * candidate);
    const Tensor grad_update = grad * (state - candidate) * update * (1 - update);
    const Tensor grad_reset = grad_candidate * hidden_candidate * reset * (1 - reset);
    grad_input_gates = at::cat({grad_reset, grad_update, grad_candidate}, kGateDim);
    grad_hidden_gates = at::cat({grad_reset, grad_update, grad_candidate * reset}, kGateDim);
    grad_hx = grad * update;
    if (has_bias) {
      grad_input_bias = grad_input_gates.sum(0);
      grad_hidden_bias = grad_hidden_gates.sum(0);
    }
  });
  return {call.adopt(std::move(grad_input_gates)), call.adopt(std::move(grad_hidden_gates)),
          call.adopt(std::move(grad_hx)), call.adopt(std::move(grad_input_bias)),
          call.adopt(std::move(grad_hidden_bias))};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

}  // namespace torch_trainium
