// Sparse tensors: what makes them, reads their metadata or shares their parts. The
// boxed kernel computes with them.
#include <ATen/ops/_coalesced_native.h>
#include <ATen/ops/_dimI_native.h>
#include <ATen/ops/_dimV_native.h>
#include <ATen/ops/_indices_native.h>
#include <ATen/ops/_nnz_native.h>
#include <ATen/ops/_pin_memory_native.h>
#include <ATen/ops/_sparse_broadcast_to_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_native.h>
#include <ATen/ops/_sparse_mm_reduce_impl_ops.h>
#include <ATen/ops/_values_native.h>
#include <ATen/ops/ccol_indices_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/col_indices_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/copy_sparse_to_sparse_native.h>
#include <ATen/ops/crow_indices_native.h>
#include <ATen/ops/dense_dim_native.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/empty_native.h>
#include <ATen/ops/indices_native.h>
#include <ATen/ops/is_coalesced_native.h>
#include <ATen/ops/is_pinned_native.h>
#include <ATen/ops/normal_native.h>
#include <ATen/ops/permute_native.h>
#include <ATen/ops/resize_as_sparse_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/row_indices_native.h>
#include <ATen/ops/select_native.h>
#include <ATen/ops/sparse_dim_native.h>
#include <ATen/ops/sparse_resize_and_clear_native.h>
#include <ATen/ops/sparse_resize_native.h>
#include <ATen/ops/unsqueeze_native.h>
#include <ATen/ops/values_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/zero_native.h>

#include "aten/guarded.h"
#include "aten/host_engine.h"

namespace torch_trainium {
namespace {

// The CPU kernel keeps what its backward needs only if an operand needs a
// gradient, which an alias does not tell.
std::tuple<at::Tensor, at::Tensor> sparse_mm_reduce(const at::Tensor& self, const at::Tensor& other,
                                                    std::string_view reduce) {
  static OperatorRecord& record = operator_record("aten::_sparse_mm_reduce_impl");
  note_call(record, self, other);
  HostCall call(record, self.device().index(), CpuOperands::kNone);
  const at::Tensor host_self = call.alias(self);
  host_self.set_requires_grad(self.requires_grad() || other.requires_grad());
  std::tuple<at::Tensor, at::Tensor> result;
  call.run([&] {
    result = at::_ops::_sparse_mm_reduce_impl::call(host_self, call.alias(other), reduce);
  });
  return {call.adopt(std::move(std::get<0>(result))), call.adopt(std::move(std::get<1>(result)))};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  NEURON_GUARDED(m, "empty.memory_format", at::native::empty_sparse);
  NEURON_GUARDED(m, "empty_like", at::native::empty_like_sparse_coo);
  NEURON_GUARDED(m, "_sparse_coo_tensor_with_dims", at::native::new_with_dims_sparse);
  NEURON_GUARDED(m, "_sparse_coo_tensor_with_dims_and_tensors",
                 at::native::new_with_dims_and_tensor_sparse_symint);
  NEURON_GUARDED(m, "clone", at::native::clone_sparse);
  NEURON_GUARDED(m, "copy_", at::native::copy_sparse_wrapper_);
  NEURON_GUARDED(m, "copy_sparse_to_sparse_", at::native::copy_sparse_);
  NEURON_GUARDED(m, "resize_as_sparse_", at::native::resize_as_sparse_);
  NEURON_GUARDED(m, "sparse_resize_", at::native::sparse_resize_);
  NEURON_GUARDED(m, "sparse_resize_and_clear_", at::native::sparse_resize_and_clear_);
  NEURON_GUARDED(m, "zero_", at::native::zero_sparse_);
  NEURON_GUARDED(m, "sparse_dim", at::native::sparse_dim_sparse);
  NEURON_GUARDED(m, "_dimI", at::native::sparse_dim_sparse);
  NEURON_GUARDED(m, "dense_dim", at::native::dense_dim_sparse);
  NEURON_GUARDED(m, "_dimV", at::native::dense_dim_sparse);
  NEURON_GUARDED(m, "_nnz", at::native::_nnz_sparse);
  NEURON_GUARDED(m, "is_coalesced", at::native::is_coalesced_sparse);
  NEURON_GUARDED(m, "_coalesced_", at::native::_coalesced_sparse_);
  NEURON_GUARDED(m, "indices", at::native::indices_sparse);
  NEURON_GUARDED(m, "values", at::native::values_sparse);
  NEURON_GUARDED(m, "_indices", at::native::_indices_sparse);
  NEURON_GUARDED(m, "_values", at::native::_values_sparse);
  NEURON_GUARDED(m, "view_as_real", at::native::view_as_real_sparse);
  NEURON_GUARDED(m, "view_as_complex", at::native::view_as_complex_sparse);
  NEURON_GUARDED(m, "permute", at::native::permute_sparse_coo);
  NEURON_GUARDED(m, "unsqueeze", at::native::unsqueeze_sparse);
  NEURON_GUARDED(m, "_sparse_broadcast_to", at::native::sparse_broadcast_to);
  NEURON_GUARDED(m, "is_pinned", at::native::is_pinned_sparse_coo);
  NEURON_GUARDED(m, "_pin_memory", at::native::_pin_memory_sparse_coo);
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("_sparse_mm_reduce_impl", TORCH_FN(sparse_mm_reduce));
  NEURON_GUARDED(m, "empty.memory_format", at::native::empty_sparse_compressed);
  NEURON_GUARDED(m, "empty_like", at::native::empty_like_sparse_csr);
  NEURON_GUARDED(m, "clone", at::native::clone_sparse_compressed);
  NEURON_GUARDED(m, "copy_", at::native::copy_sparse_compressed_);
  NEURON_GUARDED(m, "resize_", at::native::resize_sparse_csr_);
  NEURON_GUARDED(m, "resize_as_sparse_", at::native::resize_as_sparse_compressed_);
  NEURON_GUARDED(m, "zero_", at::native::zero_sparse_csr_);
  NEURON_GUARDED(m, "normal_", at::native::normal_sparse_csr_);
  NEURON_GUARDED(m, "sparse_dim", at::native::sparse_dim_sparse_csr);
  NEURON_GUARDED(m, "dense_dim", at::native::dense_dim_sparse_csr);
  NEURON_GUARDED(m, "_nnz", at::native::_nnz_sparse_csr);
  NEURON_GUARDED(m, "values", at::native::values_sparse_csr);
  NEURON_GUARDED(m, "crow_indices", at::native::crow_indices_sparse_csr);
  NEURON_GUARDED(m, "col_indices", at::native::col_indices_sparse_csr);
  NEURON_GUARDED(m, "ccol_indices", at::native::ccol_indices_sparse_csr);
  NEURON_GUARDED(m, "row_indices", at::native::row_indices_sparse_csr);
  NEURON_GUARDED(m, "select.int", at::native::select_sparse_csr);
  NEURON_GUARDED(m, "is_pinned", at::native::is_pinned_sparse_compressed);
  NEURON_GUARDED(m, "_pin_memory", at::native::_pin_memory_sparse_compressed);
}

}  // namespace torch_trainium
