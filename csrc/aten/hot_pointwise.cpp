// The hottest pointwise overloads, without boxing.
#include "aten/host_kernel.h"

#include <ATen/ops/add_cpu_dispatch.h>
#include <ATen/ops/addcdiv_cpu_dispatch.h>
#include <ATen/ops/addcmul_cpu_dispatch.h>
#include <ATen/ops/bitwise_and_cpu_dispatch.h>
#include <ATen/ops/clamp_cpu_dispatch.h>
#include <ATen/ops/cos_cpu_dispatch.h>
#include <ATen/ops/div_cpu_dispatch.h>
#include <ATen/ops/eq_cpu_dispatch.h>
#include <ATen/ops/exp_cpu_dispatch.h>
#include <ATen/ops/fill_cpu_dispatch.h>
#include <ATen/ops/ge_cpu_dispatch.h>
#include <ATen/ops/gelu_backward_cpu_dispatch.h>
#include <ATen/ops/gelu_cpu_dispatch.h>
#include <ATen/ops/gt_cpu_dispatch.h>
#include <ATen/ops/le_cpu_dispatch.h>
#include <ATen/ops/lerp_cpu_dispatch.h>
#include <ATen/ops/log_cpu_dispatch.h>
#include <ATen/ops/lt_cpu_dispatch.h>
#include <ATen/ops/masked_fill_cpu_dispatch.h>
#include <ATen/ops/maximum_cpu_dispatch.h>
#include <ATen/ops/mul_cpu_dispatch.h>
#include <ATen/ops/ne_cpu_dispatch.h>
#include <ATen/ops/neg_cpu_dispatch.h>
#include <ATen/ops/pow_cpu_dispatch.h>
#include <ATen/ops/reciprocal_cpu_dispatch.h>
#include <ATen/ops/relu_cpu_dispatch.h>
#include <ATen/ops/rsqrt_cpu_dispatch.h>
#include <ATen/ops/sigmoid_backward_cpu_dispatch.h>
#include <ATen/ops/sigmoid_cpu_dispatch.h>
#include <ATen/ops/silu_backward_cpu_dispatch.h>
#include <ATen/ops/silu_cpu_dispatch.h>
#include <ATen/ops/sin_cpu_dispatch.h>
#include <ATen/ops/sqrt_cpu_dispatch.h>
#include <ATen/ops/sub_cpu_dispatch.h>
#include <ATen/ops/tanh_backward_cpu_dispatch.h>
#include <ATen/ops/tanh_cpu_dispatch.h>
#include <ATen/ops/threshold_backward_cpu_dispatch.h>
#include <ATen/ops/where_cpu_dispatch.h>
#include <ATen/ops/zero_cpu_dispatch.h>
#include <torch/library.h>

namespace torch_trainium {
namespace {

using at::Scalar;
using at::Tensor;
using Unary = Tensor (*)(const Tensor&);
using UnaryInPlace = Tensor& (*)(Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);
using BinaryInPlace = Tensor& (*)(Tensor&, const Tensor&);
using WithScalar = Tensor (*)(const Tensor&, const Scalar&);

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  NEURON_HOST_KERNEL(m, "add.Tensor", &at::cpu::add);
  NEURON_HOST_KERNEL(m, "add_.Tensor", &at::cpu::add_);
  NEURON_HOST_KERNEL(m, "sub.Tensor", &at::cpu::sub);
  NEURON_HOST_KERNEL(m, "sub_.Tensor", &at::cpu::sub_);
  NEURON_HOST_KERNEL(m, "mul.Tensor", static_cast<Binary>(&at::cpu::mul));
  NEURON_HOST_KERNEL(m, "mul_.Tensor", static_cast<BinaryInPlace>(&at::cpu::mul_));
  NEURON_HOST_KERNEL(m, "div.Tensor", static_cast<Binary>(&at::cpu::div));
  NEURON_HOST_KERNEL(m, "div_.Tensor", static_cast<BinaryInPlace>(&at::cpu::div_));
  NEURON_HOST_KERNEL(m, "maximum", &at::cpu::maximum);
  NEURON_HOST_KERNEL(m, "bitwise_and.Tensor", static_cast<Binary>(&at::cpu::bitwise_and));
  NEURON_HOST_KERNEL(m, "addcmul_", &at::cpu::addcmul_);
  NEURON_HOST_KERNEL(m, "addcdiv_", &at::cpu::addcdiv_);
  NEURON_HOST_KERNEL(
      m, "lerp_.Scalar",
      (static_cast<Tensor& (*)(Tensor&, const Tensor&, const Scalar&)>(&at::cpu::lerp_)));

  NEURON_HOST_KERNEL(m, "eq.Tensor", static_cast<Binary>(&at::cpu::eq));
  NEURON_HOST_KERNEL(m, "eq.Scalar", static_cast<WithScalar>(&at::cpu::eq));
  NEURON_HOST_KERNEL(m, "ne.Scalar", static_cast<WithScalar>(&at::cpu::ne));
  NEURON_HOST_KERNEL(m, "lt.Scalar", static_cast<WithScalar>(&at::cpu::lt));
  NEURON_HOST_KERNEL(m, "gt.Scalar", static_cast<WithScalar>(&at::cpu::gt));
  NEURON_HOST_KERNEL(m, "le.Scalar", static_cast<WithScalar>(&at::cpu::le));
  NEURON_HOST_KERNEL(m, "ge.Scalar", static_cast<WithScalar>(&at::cpu::ge));

  NEURON_HOST_KERNEL(m, "neg", static_cast<Unary>(&at::cpu::neg));
  NEURON_HOST_KERNEL(m, "exp", static_cast<Unary>(&at::cpu::exp));
  NEURON_HOST_KERNEL(m, "log", static_cast<Unary>(&at::cpu::log));
  NEURON_HOST_KERNEL(m, "sin", static_cast<Unary>(&at::cpu::sin));
  NEURON_HOST_KERNEL(m, "cos", static_cast<Unary>(&at::cpu::cos));
  NEURON_HOST_KERNEL(m, "sqrt", static_cast<Unary>(&at::cpu::sqrt));
  NEURON_HOST_KERNEL(m, "rsqrt", static_cast<Unary>(&at::cpu::rsqrt));
  NEURON_HOST_KERNEL(m, "reciprocal", static_cast<Unary>(&at::cpu::reciprocal));
  NEURON_HOST_KERNEL(m, "pow.Tensor_Scalar", static_cast<WithScalar>(&at::cpu::pow));
  NEURON_HOST_KERNEL(m, "clamp",
                     (static_cast<Tensor (*)(const Tensor&, const std::optional<Scalar>&,
                                             const std::optional<Scalar>&)>(&at::cpu::clamp)));

  NEURON_HOST_KERNEL(m, "relu", static_cast<Unary>(&at::cpu::relu));
  NEURON_HOST_KERNEL(m, "relu_", static_cast<UnaryInPlace>(&at::cpu::relu_));
  NEURON_HOST_KERNEL(m, "threshold_backward", &at::cpu::threshold_backward);
  NEURON_HOST_KERNEL(m, "gelu", &at::cpu::gelu);
  NEURON_HOST_KERNEL(m, "gelu_backward", &at::cpu::gelu_backward);
  NEURON_HOST_KERNEL(m, "silu", static_cast<Unary>(&at::cpu::silu));
  NEURON_HOST_KERNEL(m, "silu_backward", &at::cpu::silu_backward);
  NEURON_HOST_KERNEL(m, "sigmoid", static_cast<Unary>(&at::cpu::sigmoid));
  NEURON_HOST_KERNEL(m, "sigmoid_backward", &at::cpu::sigmoid_backward);
  NEURON_HOST_KERNEL(m, "tanh", static_cast<Unary>(&at::cpu::tanh));
  NEURON_HOST_KERNEL(m, "tanh_backward", &at::cpu::tanh_backward);

  NEURON_HOST_KERNEL(m, "where.self", &at::cpu::where);
  NEURON_HOST_KERNEL(
      m, "masked_fill_.Scalar",
      (static_cast<Tensor& (*)(Tensor&, const Tensor&, const Scalar&)>(&at::cpu::masked_fill_)));
  NEURON_HOST_KERNEL(m, "fill_.Scalar",
                     (static_cast<Tensor& (*)(Tensor&, const Scalar&)>(&at::cpu::fill_)));
  NEURON_HOST_KERNEL(m, "zero_", static_cast<UnaryInPlace>(&at::cpu::zero_));
}

}  // namespace torch_trainium
