#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/copy_native.h>
#include <torch/library.h>

#include <cstddef>
#include <cstring>

#include "aten/host_engine.h"
#include "core/stream_order.h"

namespace torch_trainium {
namespace {

// Makes what comes next on the current stream of `then` wait for that of `first`.
void order_streams(c10::DeviceIndex first, c10::DeviceIndex then) {
  void* event = runtime_or_raise().create_event(first);
  record_event(event, current_stream(first));
  wait_event(event, current_stream(then));
  destroy_event(event);
}

// PyTorch copies even fewer bytes with all its threads, whose start and end then take longer than
// the copy: for the parameters of a small model, a tenth of a process's start.
constexpr size_t kMaxBytesOfOneThread = size_t{1} << 20;

bool holds_plain_bytes(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && !tensor.is_nested() && !tensor.is_quantized() &&
         !tensor.is_conj() && !tensor.is_neg() && !tensor._is_zerotensor() &&
         tensor.is_contiguous() && tensor.numel() > 0;
}

void copy_on_host(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const bool same_bytes = holds_plain_bytes(to) && holds_plain_bytes(from) &&
                          to.scalar_type() == from.scalar_type() && to.sizes() == from.sizes();
  if (same_bytes && to.nbytes() <= kMaxBytesOfOneThread) {
    std::memmove(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes());
    return;
  }
  at::native::copy_(to, from, non_blocking);
}

// Copies between any two devices, dtypes and strides; at least one side is a
// device tensor. Between two devices the copy runs in the order of both streams.
void copy_between(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  static OperatorRecord& record = operator_record("aten::copy_");
  note_call(record, to, from);
  const c10::Device device = to.is_privateuseone() ? to.device() : from.device();
  const bool between_devices =
      to.is_privateuseone() && from.is_privateuseone() && to.device() != from.device();
  if (between_devices) order_streams(from.device().index(), device.index());
  HostCall call(record, device.index(), CpuOperands::kAnyDevice);
  at::Tensor host_to = call.alias_written(to);
  const at::Tensor host_from = call.alias(from);
  const bool host_waits = !non_blocking && (to.is_cpu() || from.is_cpu());
  call.run([&] { copy_on_host(host_to, host_from, non_blocking); }, host_waits);
  if (between_devices) order_streams(device.index(), from.device().index());
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  TORCH_CHECK(self.defined(), "copy_: self is undefined");
  TORCH_CHECK(src.defined(), "copy_: src is undefined");
  copy_between(self, src, non_blocking);
  return self;
}

at::Tensor _copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  at::Tensor to = dst;
  copy_between(to, self, non_blocking);
  return dst;
}

at::Tensor _copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  dst.resize_(self.sizes());
  return _copy_from(self, dst, /*non_blocking=*/false);
}

at::Scalar _local_scalar_dense(const at::Tensor& self) {
  static OperatorRecord& record = operator_record("aten::_local_scalar_dense");
  note_call(record, self);
  HostCall call(record, self.device().index(), CpuOperands::kNone);
  const at::Tensor host = call.alias(self);
  at::Scalar value;
  call.run([&] { value = at::native::_local_scalar_dense_cpu(host); }, /*host_waits=*/true);
  return value;
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  device_allocator()->recordStream(self.storage().data_ptr(), stream);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("_copy_from", TORCH_FN(_copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(_copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(_local_scalar_dense));
  m.impl("record_stream", TORCH_FN(record_stream));
}

// copy_ resolves these bits itself. Materializing the operand first would copy
// through _copy_from again, without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, ZeroTensor, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace torch_trainium
