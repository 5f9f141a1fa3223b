#include "aten/determinism.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <iterator>

namespace torch_trainium {
namespace {

using Arguments = c10::ArrayRef<c10::IValue>;

bool always(Arguments /*arguments*/) { return true; }

bool on_floating_point(Arguments arguments) {
  const at::ScalarType dtype = arguments[0].toTensor().scalar_type();
  return at::isFloatingType(dtype) || at::isComplexType(dtype);
}

bool with_weights(Arguments arguments) {
  return arguments[1].isTensor() && arguments[1].toTensor().defined();
}

bool by_product(Arguments arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const c10::IValue& argument) {
    return argument.isString() && argument.toStringRef() == "prod";
  });
}

// _embedding_bag_dense_backward(grad, indices, offset2bag, bag_size,
// maximum_indices, num_weights, scale_grad_by_freq, mode, ...)
bool in_max_mode(Arguments arguments) {
  constexpr int64_t kMax = 2;
  return arguments[7].toInt() == kMax;
}

struct Row {
  std::string_view name;
  NondeterminismCheck check;
};

constexpr Row kRows[] = {
    {"aten::_adaptive_avg_pool2d_backward", always},
    {"aten::_adaptive_avg_pool3d_backward", always},
    {"aten::_ctc_loss_backward", always},
    {"aten::_ctc_loss_backward.Tensor", always},
    {"aten::_embedding_bag_dense_backward", in_max_mode},
    {"aten::adaptive_max_pool2d_backward", always},
    {"aten::adaptive_max_pool2d_backward.grad_input", always},
    {"aten::avg_pool3d_backward", always},
    {"aten::avg_pool3d_backward.grad_input", always},
    {"aten::bincount", with_weights},
    {"aten::cumsum", on_floating_point},
    {"aten::cumsum.out", on_floating_point},
    {"aten::cumsum_", on_floating_point},
    {"aten::fractional_max_pool2d_backward", always},
    {"aten::fractional_max_pool2d_backward.grad_input", always},
    {"aten::fractional_max_pool3d_backward", always},
    {"aten::fractional_max_pool3d_backward.grad_input", always},
    {"aten::grid_sampler_2d_backward", always},
    {"aten::grid_sampler_3d_backward", always},
    {"aten::histc.out", always},
    {"aten::max_unpool2d", always},
    {"aten::max_unpool2d.out", always},
    {"aten::max_unpool3d", always},
    {"aten::max_unpool3d.out", always},
    {"aten::median.dim", always},
    {"aten::median.dim_values", always},
    {"aten::nanmedian.dim", always},
    {"aten::nanmedian.dim_values", always},
    {"aten::nll_loss2d_forward", always},
    {"aten::nll_loss2d_forward.output", always},
    {"aten::put_", always},
    {"aten::reflection_pad1d_backward", always},
    {"aten::reflection_pad1d_backward.grad_input", always},
    {"aten::reflection_pad2d_backward", always},
    {"aten::reflection_pad2d_backward.grad_input", always},
    {"aten::reflection_pad3d_backward", always},
    {"aten::reflection_pad3d_backward.grad_input", always},
    {"aten::scatter_reduce.two", by_product},
    {"aten::scatter_reduce.two_out", by_product},
    {"aten::scatter_reduce_.two", by_product},
    {"aten::upsample_bicubic2d_backward", always},
    {"aten::upsample_bicubic2d_backward.grad_input", always},
    {"aten::upsample_bilinear2d_backward", always},
    {"aten::upsample_bilinear2d_backward.grad_input", always},
    {"aten::upsample_linear1d_backward", always},
    {"aten::upsample_linear1d_backward.grad_input", always},
    {"aten::upsample_trilinear3d_backward", always},
    {"aten::upsample_trilinear3d_backward.grad_input", always},
};

}  // namespace

NondeterminismCheck nondeterminism_check(std::string_view qualified_name) {
  const auto row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& candidate) {
    return candidate.name == qualified_name;
  });
  return row == std::end(kRows) ? nullptr : row->check;
}

}  // namespace torch_trainium
