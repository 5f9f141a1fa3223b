#include "bindings_kernels/kernel_call.h"

#include <ATen/ops/from_blob.h>

namespace torch_trainium::kernels {
namespace {

at::ScalarType dtype_of(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::PRED:
      return at::kBool;
    case ffi::DataType::S8:
      return at::kChar;
    case ffi::DataType::S16:
      return at::kShort;
    case ffi::DataType::S32:
      return at::kInt;
    case ffi::DataType::S64:
      return at::kLong;
    case ffi::DataType::U8:
      return at::kByte;
    case ffi::DataType::BF16:
      return at::kBFloat16;
    case ffi::DataType::F16:
      return at::kHalf;
    case ffi::DataType::F32:
      return at::kFloat;
    case ffi::DataType::F64:
      return at::kDouble;
    default:
      TORCH_CHECK(false, "no kernel takes elements of XLA's type ", static_cast<int>(type));
  }
}

c10::DispatchKeySet all_but_kernels() {
  return c10::DispatchKeySet(c10::DispatchKeySet::FULL) -
         c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::ADInplaceOrView);
}

}  // namespace

at::Tensor tensor_in(ffi::AnyBuffer buffer, const Window& window) {
  const at::ScalarType dtype = dtype_of(buffer.element_type());
  auto* data = static_cast<std::byte*>(buffer.untyped_data());
  data += window.offset * static_cast<int64_t>(c10::elementSize(dtype));
  return at::from_blob(data, ints(window.sizes), ints(window.strides), dtype);
}

at::Tensor tensor_of(ffi::AnyBuffer buffer) {
  const ffi::AnyBuffer::Dimensions sizes = buffer.dimensions();
  return at::from_blob(buffer.untyped_data(), ints(sizes), dtype_of(buffer.element_type()));
}

PlainThread::PlainThread()
    : only_kernels_(c10::DispatchKeySet(c10::DispatchKey::BackendSelect), all_but_kernels()),
      unprofiled_(false) {}

}  // namespace torch_trainium::kernels
