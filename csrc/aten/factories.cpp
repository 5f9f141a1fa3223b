#include <ATen/EmptyTensor.h>
#include <ATen/native/TensorFactories.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "aten/fallback.h"
#include "core/allocator.h"
#include "core/device.h"

namespace torch_trainium {
namespace {

constexpr c10::DispatchKeySet kNeuronKeys(c10::DispatchKey::PrivateUse1);

// Makes the requested device current, which is where the allocator allocates.
c10::DeviceGuard guard_for(std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false),
              "Only dense CPU tensors can be pinned; got pin_memory=True with a neuron device");
  const c10::Device target = device.value_or(c10::Device(kNeuron, -1));
  TORCH_CHECK(target.type() == kNeuron, "Expected a neuron device, but got ", target);
  runtime_or_raise();
  return c10::DeviceGuard(c10::Device(kNeuron, resolve_device(target.index())));
}

void check_dtype(at::ScalarType dtype) {
  TORCH_CHECK_TYPE(!c10::isQIntType(dtype),
                   "The neuron device does not support the quantized dtype ", dtype,
                   "; keep integer values and their scales in ordinary tensors (for example with "
                   "torchao), or use fake quantization");
}

at::Tensor fill_if_deterministic(at::Tensor tensor) {
  if (C10_UNLIKELY(at::globalContext().deterministicAlgorithms() &&
                   at::globalContext().deterministicFillUninitializedMemory())) {
    at::native::fill_empty_deterministic_(tensor);
  }
  return tensor;
}

// Tensors of a dtype that does not exist on the chip are lent to the host for all they are used
// for.
void check_exists(OperatorRecord& record, at::ScalarType dtype) {
  CallDtypes dtypes;
  dtypes.add(dtype);
  if (C10_LIKELY(!dtypes.fall_back(record))) return;
  const std::string reason = dtypes.reason(record);
  if (reason.empty()) return;
  refuse_fallback(record, reason);
  note_fallback(record, reason, /*bytes=*/0, /*device_ps=*/0);
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> layout, std::optional<c10::Device> device,
                 std::optional<bool> pin_memory, std::optional<at::MemoryFormat> memory_format) {
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(at::kStrided) == at::kStrided,
                              "empty on neuron makes strided tensors; got layout ", *layout);
  const c10::DeviceGuard guard = guard_for(device, pin_memory);
  const at::ScalarType scalar_type = c10::dtype_or_default(dtype);
  check_dtype(scalar_type);
  static OperatorRecord& record = operator_record("aten::empty.memory_format");
  check_exists(record, scalar_type);
  return fill_if_deterministic(at::Tensor(at::detail::empty_generic(
      size, device_allocator(), kNeuronKeys, scalar_type, memory_format)));
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(at::kStrided) == at::kStrided,
                              "empty_strided on neuron makes strided tensors; got layout ",
                              *layout);
  const c10::DeviceGuard guard = guard_for(device, pin_memory);
  const at::ScalarType scalar_type = c10::dtype_or_default(dtype);
  check_dtype(scalar_type);
  static OperatorRecord& record = operator_record("aten::empty_strided");
  check_exists(record, scalar_type);
  return fill_if_deterministic(at::Tensor(at::detail::empty_strided_generic(
      size, stride, device_allocator(), kNeuronKeys, scalar_type)));
}

// A zero tensor of autograd has a shape and a device, but no memory.
class NoMemory final : public c10::Allocator {
 public:
  explicit NoMemory(c10::Device device) : device_(device) {}
  c10::DataPtr allocate(size_t /*bytes*/) override { return {nullptr, device_}; }
  void copy_data(void* /*to*/, const void* /*from*/, size_t /*bytes*/) const override {
    TORCH_INTERNAL_ASSERT(false, "a zero tensor has no memory to copy");
  }

 private:
  c10::Device device_;
};

at::Tensor efficient_zero_tensor(c10::IntArrayRef size, std::optional<at::ScalarType> dtype,
                                 std::optional<at::Layout> /*layout*/,
                                 std::optional<c10::Device> device,
                                 std::optional<bool> pin_memory) {
  const c10::DeviceGuard guard = guard_for(device, pin_memory);
  NoMemory allocator(c10::Device(kNeuron, current_device()));
  at::Tensor zeros(at::detail::empty_generic(
      size, &allocator, kNeuronKeys | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor),
      c10::dtype_or_default(dtype), std::nullopt));
  zeros.storage().unsafeGetStorageImpl()->set_allocator(nullptr);
  zeros.storage().unsafeGetStorageImpl()->set_resizable(false);
  return zeros;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_efficientzerotensor", TORCH_FN(efficient_zero_tensor));
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
}

}  // namespace torch_trainium
