#include "aten/call_description.h"

#include <c10/core/ScalarType.h>

namespace torch_trainium {
namespace {

using timeline::Element;

Element element_of(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Float:
      return Element::kFloat32;
    case c10::ScalarType::BFloat16:
      return Element::kBfloat16;
    case c10::ScalarType::Half:
      return Element::kFloat16;
    case c10::ScalarType::Float8_e5m2:
    case c10::ScalarType::Float8_e4m3fn:
    case c10::ScalarType::Float8_e5m2fnuz:
    case c10::ScalarType::Float8_e4m3fnuz:
    case c10::ScalarType::Float8_e8m0fnu:
      return Element::kFloat8;
    case c10::ScalarType::Float4_e2m1fn_x2:
      return Element::kMxFloat4;
    case c10::ScalarType::Short:
    case c10::ScalarType::UInt16:
      return Element::kInt16;
    case c10::ScalarType::Int:
    case c10::ScalarType::UInt32:
      return Element::kInt32;
    case c10::ScalarType::Long:
    case c10::ScalarType::UInt64:
      return Element::kInt64;
    case c10::ScalarType::Double:
      return Element::kFloat64;
    case c10::ScalarType::ComplexHalf:
    case c10::ScalarType::ComplexFloat:
    case c10::ScalarType::ComplexDouble:
      return Element::kComplex;
    default:
      return Element::kInt8;
  }
}

// Whether the last dimension is not the one whose elements are neighbours.
bool is_permuted(const c10::TensorImpl& tensor) {
  const auto sizes = tensor.sizes();
  return sizes.size() >= 2 && sizes.back() > 1 && tensor.strides().back() != 1;
}

}  // namespace

timeline::Operand operand_of(const c10::TensorImpl& tensor, bool is_written, int16_t device) {
  const auto sizes = tensor.sizes();
  return {.sizes = sizes.data(),
          .rank = static_cast<int>(sizes.size()),
          .element = element_of(c10::typeMetaToScalarType(tensor.dtype())),
          .element_bytes = static_cast<uint8_t>(tensor.itemsize()),
          .is_dense = tensor.is_non_overlapping_and_dense(),
          .is_written = is_written,
          .is_on_host = device == timeline::kHostDevice,
          .elements = tensor.numel(),
          .is_permuted = is_permuted(tensor),
          .device = device};
}

timeline::Access access_to(const c10::TensorImpl& tensor, bool is_written, bool is_on_host) {
  if (!tensor.has_storage()) return timeline::access_to_bytes(nullptr, 0, is_written);
  const c10::StorageImpl& storage = *tensor.unsafe_storage().unsafeGetStorageImpl();
  const auto* begin = static_cast<const std::byte*>(storage.data_ptr().get());
  const auto element_bytes = static_cast<int64_t>(tensor.itemsize());
  return {.storage = begin,
          .storage_bytes = storage.nbytes(),
          .data = begin + tensor.storage_offset() * element_bytes,
          .sizes = tensor.sizes().data(),
          .strides = tensor.strides().data(),
          .rank = static_cast<int>(tensor.dim()),
          .element_bytes = element_bytes,
          .dtype = c10::toString(c10::typeMetaToScalarType(tensor.dtype())),
          .host_storage = is_on_host ? &storage : nullptr,
          .is_written = is_written};
}

}  // namespace torch_trainium
