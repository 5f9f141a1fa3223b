// What XLA's custom calls need to run kernels of PyTorch on XLA's buffers.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <exception>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace torch_trainium::kernels {

namespace ffi = xla::ffi;

// Where the elements of an operand lie in its buffer.
struct Window {
  ffi::Span<const int64_t> sizes;
  ffi::Span<const int64_t> strides;
  int64_t offset;
};

inline at::IntArrayRef ints(ffi::Span<const int64_t> span) { return {span.begin(), span.size()}; }

// A tensor over the elements of a buffer, without a copy.
at::Tensor tensor_in(ffi::AnyBuffer buffer, const Window& window);
at::Tensor tensor_of(ffi::AnyBuffer buffer);

// Kernels run as plain functions, whatever modes and profilers the calling thread has.
class PlainThread {
 public:
  PlainThread();

 private:
  c10::impl::ForceDispatchKeyGuard only_kernels_;
  at::RecordFunctionGuard unprofiled_;
};

// Runs a kernel; what it throws becomes the error of the program.
template <typename Kernel>
ffi::Error run(const char* operation, const Kernel& kernel) {
  try {
    const PlainThread plain;
    kernel();
  } catch (const std::exception& error) {
    return ffi::Error::Internal(std::string(operation) + ": " + error.what());
  }
  return ffi::Error::Success();
}

}  // namespace torch_trainium::kernels

XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(
    torch_trainium::kernels::Window, xla::ffi::StructMember<xla::ffi::Span<const int64_t>>("sizes"),
    xla::ffi::StructMember<xla::ffi::Span<const int64_t>>("strides"),
    xla::ffi::StructMember<int64_t>("offset"));
