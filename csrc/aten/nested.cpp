// Nested tensors (torch.strided layout): what makes them, reads their metadata,
// shares their buffer or draws random numbers. The boxed kernel computes with them.
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/_nested_tensor_size_native.h>
#include <ATen/ops/_nested_tensor_storage_offsets_native.h>
#include <ATen/ops/_nested_tensor_strides_native.h>
#include <ATen/ops/_nested_view_from_buffer_native.h>
#include <ATen/ops/_pin_memory_native.h>
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/alias_native.h>
#include <ATen/ops/chunk_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/detach_native.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/is_pinned_native.h>
#include <ATen/ops/is_same_size_native.h>
#include <ATen/ops/narrow_native.h>
#include <ATen/ops/native_dropout_native.h>
#include <ATen/ops/normal_native.h>
#include <ATen/ops/ones_like_native.h>
#include <ATen/ops/select_native.h>
#include <ATen/ops/split_with_sizes_native.h>
#include <ATen/ops/squeeze_native.h>
#include <ATen/ops/transpose_native.h>
#include <ATen/ops/unbind_native.h>
#include <ATen/ops/unsqueeze_native.h>
#include <ATen/ops/values_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/zeros_like_native.h>

#include "aten/guarded.h"

namespace torch_trainium {

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
  NEURON_GUARDED(m, "empty_like", at::native::empty_like_nested);
  NEURON_GUARDED(m, "ones_like", at::native::ones_like);
  NEURON_GUARDED(m, "zeros_like", at::native::zeros_like);
  NEURON_GUARDED(m, "clone", at::native::clone_nested);
  NEURON_GUARDED(m, "copy_", at::native::copy_nested_);
  NEURON_GUARDED(m, "_to_copy", at::native::_to_copy_nested);
  NEURON_GUARDED(m, "is_same_size", at::native::nested_is_same_size);
  NEURON_GUARDED(m, "_nested_tensor_size", at::native::_nested_tensor_size);
  NEURON_GUARDED(m, "_nested_tensor_strides", at::native::_nested_tensor_strides);
  NEURON_GUARDED(m, "_nested_tensor_storage_offsets", at::native::_nested_tensor_storage_offsets);
  NEURON_GUARDED(m, "_fused_sdp_choice", at::native::_fused_sdp_choice_cpp);
  NEURON_GUARDED(m, "native_dropout", at::native::native_dropout_nested);
  NEURON_GUARDED(m, "normal_", at::native::normal_nested_);
  NEURON_GUARDED(m, "alias", at::native::alias_nested);
  NEURON_GUARDED(m, "chunk", at::native::chunk_nested_tensor);
  NEURON_GUARDED(m, "detach", at::native::detach);
  NEURON_GUARDED(m, "narrow", at::native::narrow_nested_symint);
  NEURON_GUARDED(m, "select.int", at::native::select_nested);
  NEURON_GUARDED(m, "split_with_sizes", at::native::split_with_sizes_nested);
  NEURON_GUARDED(m, "squeeze", at::native::squeeze_nested);
  m.impl("squeeze.dim", TORCH_FN((Guarded<static_cast<at::Tensor (*)(const at::Tensor&, int64_t)>(
                                      &at::native::squeeze_dim_nested)>::call)));
  m.impl("squeeze.dims",
         TORCH_FN((Guarded<static_cast<at::Tensor (*)(const at::Tensor&, c10::IntArrayRef)>(
                       &at::native::squeeze_dim_nested)>::call)));
  NEURON_GUARDED(m, "transpose.int", at::native::transpose_nested);
  NEURON_GUARDED(m, "unbind.int", at::native::NestedTensor_unbind);
  NEURON_GUARDED(m, "unsqueeze", at::native::unsqueeze_nested);
  NEURON_GUARDED(m, "values", at::native::values_nested);
  NEURON_GUARDED(m, "view", at::native::view_nested);
  NEURON_GUARDED(m, "is_pinned", at::native::is_pinned);
  NEURON_GUARDED(m, "_pin_memory", at::native::_pin_memory_nested);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  NEURON_GUARDED(m, "_nested_view_from_buffer", at::native::_nested_view_from_buffer);
}

}  // namespace torch_trainium
