#include "aten/composite_layout.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <utility>

#include "aten/hbm_redirect.h"
#include "core/device.h"

namespace torch_trainium {
namespace {

enum class Composition : uint8_t { kCoo, kCompressed, kNested };

Composition composition_of(const at::Tensor& tensor) {
  if (tensor.key_set().has(c10::DispatchKey::NestedTensor)) return Composition::kNested;
  switch (tensor.layout()) {
    case at::kSparse:
      return Composition::kCoo;
    case at::kSparseCsr:
    case at::kSparseCsc:
    case at::kSparseBsr:
    case at::kSparseBsc:
      return Composition::kCompressed;
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "The neuron device does not support ", tensor.toString(),
                                  " with layout ", tensor.layout());
  }
}

at::SparseTensorImpl* coo(const at::Tensor& tensor) {
  return static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
}
at::SparseCsrTensorImpl* compressed(const at::Tensor& tensor) {
  return static_cast<at::SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl());
}
at::native::NestedTensorImpl* nested(const at::Tensor& tensor) {
  return static_cast<at::native::NestedTensorImpl*>(tensor.unsafeGetTensorImpl());
}

void fill_coo(at::SparseTensorImpl* to, const at::SparseTensorImpl& like,
              const CompositeParts& parts) {
  to->raw_resize_(like.sparse_dim(), like.dense_dim(), like.sizes());
  to->set_indices_and_values_unsafe(parts[0], parts[1]);
  to->set_coalesced(like.coalesced());
}

at::Tensor assemble_coo(const at::Tensor& like, const CompositeParts& parts) {
  const c10::Device device = parts[1].device();
  const c10::DeviceGuard guard(device);  // the constructor takes the current device
  const c10::DispatchKey key =
      device.type() == kNeuron ? c10::DispatchKey::SparsePrivateUse1 : c10::DispatchKey::SparseCPU;
  at::Tensor result =
      at::detail::make_tensor<at::SparseTensorImpl>(c10::DispatchKeySet(key), like.dtype());
  fill_coo(coo(result), *coo(like), parts);
  return result;
}

at::Tensor assemble_compressed(const at::Tensor& like, const CompositeParts& parts) {
  const c10::Device device = parts[2].device();
  const c10::DeviceGuard guard(device);
  const c10::DispatchKey key = device.type() == kNeuron ? c10::DispatchKey::SparseCsrPrivateUse1
                                                        : c10::DispatchKey::SparseCsrCPU;
  at::Tensor result = at::detail::make_tensor<at::SparseCsrTensorImpl>(
      c10::DispatchKeySet(key), device, like.layout(), like.dtype());
  compressed(result)->set_member_tensors(parts[0], parts[1], parts[2], like.sizes());
  return result;
}

// Sizes, strides and offsets stay on the host, as they do on CUDA.
at::Tensor assemble_nested(const at::Tensor& like, const CompositeParts& parts) {
  const at::native::NestedTensorImpl& from = *nested(like);
  at::Tensor sizes = from.get_nested_sizes();
  at::Tensor strides = from.get_nested_strides();
  at::Tensor offsets = from.get_storage_offsets();
  if (parts[0].device().type() == kNeuron) {
    const HostAllocations in_host_memory;
    sizes = sizes.clone();
    strides = strides.clone();
    offsets = offsets.clone();
  }
  return at::detail::make_tensor<at::native::NestedTensorImpl>(parts[0], sizes, strides, offsets);
}

}  // namespace

CompositeParts parts_of(const at::Tensor& tensor) {
  switch (composition_of(tensor)) {
    case Composition::kCoo:
      return {coo(tensor)->indices_, coo(tensor)->values_};
    case Composition::kCompressed:
      return {compressed(tensor)->crow_indices_, compressed(tensor)->col_indices_,
              compressed(tensor)->values_};
    case Composition::kNested:
      return {nested(tensor)->get_unsafe_storage_as_tensor()};
  }
  return {};
}

CompositeParts take_parts(const at::Tensor& tensor) {
  CompositeParts parts;
  switch (composition_of(tensor)) {
    case Composition::kCoo:
      parts.push_back(std::move(coo(tensor)->indices_));
      parts.push_back(std::move(coo(tensor)->values_));
      break;
    case Composition::kCompressed:
      parts.push_back(std::move(compressed(tensor)->crow_indices_));
      parts.push_back(std::move(compressed(tensor)->col_indices_));
      parts.push_back(std::move(compressed(tensor)->values_));
      break;
    case Composition::kNested:  // a buffer is made on request
      parts.push_back(nested(tensor)->get_unsafe_storage_as_tensor());
      break;
  }
  return parts;
}

at::Tensor assemble(const at::Tensor& like, const CompositeParts& parts) {
  switch (composition_of(like)) {
    case Composition::kCoo:
      return assemble_coo(like, parts);
    case Composition::kCompressed:
      return assemble_compressed(like, parts);
    case Composition::kNested:
      return assemble_nested(like, parts);
  }
  return {};
}

void reassemble(const at::Tensor& target, const at::Tensor& like, const CompositeParts& parts) {
  const CompositeParts own = parts_of(target);
  const bool same_parts = std::equal(
      parts.begin(), parts.end(), own.begin(), own.end(),
      [](const at::Tensor& left, const at::Tensor& right) { return left.is_same(right); });
  switch (composition_of(target)) {
    case Composition::kCoo:
      if (!same_parts || target.sizes() != like.sizes() ||
          coo(target)->sparse_dim() != coo(like)->sparse_dim()) {
        fill_coo(coo(target), *coo(like), parts);
      } else if (coo(target)->coalesced() != coo(like)->coalesced()) {
        coo(target)->set_coalesced(coo(like)->coalesced());
      }
      break;
    case Composition::kCompressed:
      if (!same_parts || target.sizes() != like.sizes()) {
        compressed(target)->set_member_tensors(parts[0], parts[1], parts[2], like.sizes());
      }
      break;
    case Composition::kNested:
      break;
  }
}

}  // namespace torch_trainium
