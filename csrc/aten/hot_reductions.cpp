// The hottest overloads that are not pointwise, without boxing: products,
// reductions, normalizations, indexing and losses.
#include "aten/host_kernel.h"

#include <ATen/ops/_log_softmax_backward_data_cpu_dispatch.h>
#include <ATen/ops/_log_softmax_cpu_dispatch.h>
#include <ATen/ops/_softmax_backward_data_cpu_dispatch.h>
#include <ATen/ops/_softmax_cpu_dispatch.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/argmax_cpu_dispatch.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/cat_cpu_dispatch.h>
#include <ATen/ops/embedding_dense_backward_cpu_dispatch.h>
#include <ATen/ops/gather_cpu_dispatch.h>
#include <ATen/ops/index_select_cpu_dispatch.h>
#include <ATen/ops/max_pool2d_with_indices_cpu_dispatch.h>
#include <ATen/ops/mean_cpu_dispatch.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <ATen/ops/native_batch_norm_backward_cpu_dispatch.h>
#include <ATen/ops/native_batch_norm_cpu_dispatch.h>
#include <ATen/ops/native_layer_norm_backward_cpu_dispatch.h>
#include <ATen/ops/native_layer_norm_cpu_dispatch.h>
#include <ATen/ops/nll_loss_backward_cpu_dispatch.h>
#include <ATen/ops/nll_loss_forward_cpu_dispatch.h>
#include <ATen/ops/sum_cpu_dispatch.h>
#include <ATen/ops/tril_cpu_dispatch.h>
#include <torch/library.h>

namespace torch_trainium {
namespace {

using at::Tensor;
using Dtype = std::optional<at::ScalarType>;
using OverDims = Tensor (*)(const Tensor&, at::OptionalIntArrayRef, bool, Dtype);
using BatchNorm = std::tuple<Tensor, Tensor, Tensor> (*)(
    const Tensor&, const std::optional<Tensor>&, const std::optional<Tensor>&,
    const std::optional<Tensor>&, const std::optional<Tensor>&, bool, double, double);

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  NEURON_HOST_KERNEL(m, "mm",
                     (static_cast<Tensor (*)(const Tensor&, const Tensor&)>(&at::cpu::mm)));
  NEURON_HOST_KERNEL(m, "addmm", &at::cpu::addmm);
  NEURON_HOST_KERNEL(m, "bmm",
                     (static_cast<Tensor (*)(const Tensor&, const Tensor&)>(&at::cpu::bmm)));
  NEURON_HOST_KERNEL(m, "baddbmm", &at::cpu::baddbmm);

  NEURON_HOST_KERNEL(m, "sum.dim_IntList", static_cast<OverDims>(&at::cpu::sum));
  NEURON_HOST_KERNEL(m, "mean.dim", static_cast<OverDims>(&at::cpu::mean));
  NEURON_HOST_KERNEL(m, "argmax", &at::cpu::argmax);
  NEURON_HOST_KERNEL(m, "_softmax", &at::cpu::_softmax);
  NEURON_HOST_KERNEL(m, "_softmax_backward_data", &at::cpu::_softmax_backward_data);
  NEURON_HOST_KERNEL(m, "_log_softmax", &at::cpu::_log_softmax);
  NEURON_HOST_KERNEL(m, "_log_softmax_backward_data", &at::cpu::_log_softmax_backward_data);

  NEURON_HOST_KERNEL(m, "native_layer_norm", &at::cpu::native_layer_norm);
  NEURON_HOST_KERNEL(m, "native_layer_norm_backward", &at::cpu::native_layer_norm_backward);
  NEURON_HOST_KERNEL(m, "native_batch_norm", static_cast<BatchNorm>(&at::cpu::native_batch_norm));
  NEURON_HOST_KERNEL(m, "native_batch_norm_backward", &at::cpu::native_batch_norm_backward);

  NEURON_HOST_KERNEL(m, "cat",
                     (static_cast<Tensor (*)(const at::ITensorListRef&, int64_t)>(&at::cpu::cat)));
  NEURON_HOST_KERNEL(m, "tril", (static_cast<Tensor (*)(const Tensor&, int64_t)>(&at::cpu::tril)));
  NEURON_HOST_KERNEL(m, "gather", &at::cpu::gather);
  NEURON_HOST_KERNEL(m, "index_select", &at::cpu::index_select);
  NEURON_HOST_KERNEL(m, "embedding_dense_backward", &at::cpu::embedding_dense_backward);
  NEURON_HOST_KERNEL(m, "max_pool2d_with_indices", &at::cpu::max_pool2d_with_indices);
  NEURON_HOST_KERNEL(m, "nll_loss_forward", &at::cpu::nll_loss_forward);
  NEURON_HOST_KERNEL(m, "nll_loss_backward", &at::cpu::nll_loss_backward);
}

}  // namespace torch_trainium
