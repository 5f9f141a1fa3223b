// The host engine: runs PyTorch's own CPU kernels on device memory, in place.
//
// A device tensor is lent to a CPU kernel as a *host alias*: a CPU tensor over
// the same bytes. What the kernel allocates meanwhile comes from HBM, so its
// results are adopted as device tensors without a copy.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "aten/composite_layout.h"
#include "aten/fallback.h"
#include "aten/hbm_redirect.h"
#include "aten/host_alias.h"
#include "aten/operator_record.h"
#include "core/allocator.h"
#include "core/device.h"
#include "timeline/operator_call.h"
#include "timeline/timeline.h"

namespace torch_trainium {

// Which tensors an operator takes beside those of its own device: none; zero-dim
// CPU tensors; these and a list of CPU indices as second operand; all CPU
// tensors; or (copies) tensors of any device.
enum class CpuOperands : uint8_t { kNone, kScalars, kScalarsAndIndices, kAny, kAnyDevice };

// One operator on `device`. While alive on a thread: CPU allocations of that
// thread come from the device's memory; autograd, autocast, modes and profilers
// of the user do not see what runs.
class HostCall final : public timeline::CallSource {
 public:
  HostCall(OperatorRecord& record, c10::DeviceIndex device,
           CpuOperands cpu_operands = CpuOperands::kScalars);
  ~HostCall();
  HostCall(const HostCall&) = delete;
  HostCall& operator=(const HostCall&) = delete;

  c10::DeviceIndex device() const { return device_; }
  // Whether a sparse or nested tensor was lent.
  bool has_composite_operands() const { return !composites_.empty(); }

  // The CPU alias of a device tensor. An undefined tensor, and a CPU tensor where
  // the operator takes one, comes back as it is; other tensors raise.
  at::Tensor alias(const at::Tensor& tensor);
  // The same for a tensor that is never a CPU tensor, such as one the operator indexes.
  at::Tensor alias_on_device(const at::Tensor& tensor);
  // The same for a tensor that the operator writes.
  at::Tensor alias_written(const at::Tensor& tensor);

  // Runs the kernel through the runtime's submit.
  template <typename Kernel>
  void run(Kernel&& kernel, bool host_waits = false) {
    classify();
    const auto body = [](void* context) { (*static_cast<Kernel*>(context))(); };
    runtime_.submit(
        {record_.work_kind, device_, stream_, record_.id, this, host_waits, body, &kernel});
    if (C10_UNLIKELY(fallback_ != nullptr)) note();
  }

  // A dtype that the operator is asked to compute or return, without a tensor that has it yet.
  void add_dtype(c10::ScalarType dtype) { dtypes_.add(dtype); }
  // What the operator is used for, where that decides.
  void set_use(const UseClassification& use) { dtypes_.set_use(use); }
  // To be called by the kernel for what it is about to return.
  void add_result(const at::Tensor& result) {
    if (result.defined()) dtypes_.add(result.scalar_type());
    if (C10_UNLIKELY(dtypes_.fall_back(record_)) && fallback_ == nullptr) classify();
  }

  timeline::OperatorCall describe(std::vector<timeline::Operand>& operands) const override;
  void add_accesses(std::vector<timeline::Access>& accesses) const override;

  // Turns a result of the CPU kernel into a device tensor. A result that is a
  // lent alias, or a view of one, becomes the tensor lent, or a view of it.
  at::Tensor adopt(at::Tensor result);

  // Carries what the kernel changed of the alias (size, strides, conjugate and
  // negative bits) over to the tensor it was made for. To be called for each tensor the operator
  // writes.
  void write_back(const at::Tensor& tensor);

 private:
  struct Operand {
    const c10::TensorImpl* tensor;  // the alias, or a CPU tensor that the caller holds
    bool is_written;
    int16_t device;  // kHostDevice where the caller holds it
    bool is_scalar;  // an argument of the program, not a tensor that it reads
  };

  // What makes this call a CPU fallback, and when it ran.
  struct Fallback {
    std::string reason;
    timeline::Placement placement;
  };

  struct Lease {
    c10::TensorImpl* source;
    c10::intrusive_ptr<HostAlias> alias;
  };

  // A sparse or nested tensor; its parts have leases of their own.
  struct CompositeLease {
    at::Tensor source;
    at::Tensor alias;
    CompositeParts parts;  // of the source, which may get others meanwhile
  };

  // Finds out whether this call falls back; raises where the user refuses that.
  void classify() {
    if (C10_LIKELY(!dtypes_.fall_back(record_) && composites_.empty() &&
                   !RefusedProgram::exists())) {
      return;
    }
    find_fallback();
  }
  void find_fallback();
  void note();
  bool is_computed_by_host() const;

  void check_foreign(const at::Tensor& tensor) const;
  // From here on leases are found by hash: optimizers lend thousands of tensors.
  static constexpr size_t kLeasesToIndex = 32;
  const Lease* find_lease(const void* object) const;
  static std::array<const void*, 4> parts_of_lease(const Lease& lease);
  void add_lease(c10::TensorImpl* source, c10::intrusive_ptr<HostAlias> alias);
  at::Tensor adopt_strided(at::Tensor result);
  // Where the host reads and writes a device storage.
  void* host_address(const c10::StorageImpl& storage) const;
  at::Tensor alias_composite(const at::Tensor& tensor);
  at::Tensor adopt_composite(at::Tensor result);
  void write_back_composite(const at::Tensor& tensor);

  OperatorRecord& record_;
  runtime::Runtime& runtime_;
  const c10::DeviceIndex device_;
  const CpuOperands cpu_operands_;
  const runtime::StreamId stream_;
  std::vector<CompositeLease> composites_;
  c10::SmallVector<Lease, 6> leases_;
  c10::SmallVector<Operand, 6> operands_;  // as the operator's arguments name them
  CallDtypes dtypes_;
  std::unique_ptr<Fallback> fallback_;  // null where there is a program
  std::unique_ptr<std::unordered_map<const void*, size_t>> index_;
  ProvisionalAllocations provisional_;
  HbmRedirect redirect_;
  c10::impl::ForceDispatchKeyGuard below_user_features_;
  std::optional<at::RecordFunctionGuard> unprofiled_;
};

// The dispatch keys that a kernel's own calls must not reach: what the user put on
// top of the operator has been applied before it came here.
c10::DispatchKeySet keys_above_backend();

// Raises PyTorch's error for a tensor on a device where it cannot be.
[[noreturn]] void raise_foreign(const at::Tensor& tensor, c10::DeviceIndex device,
                                const OperatorRecord& record);

// How many results had to be copied into device memory because the kernel did
// not allocate them there.
uint64_t copied_results();

// Names the operands of a call for whoever asked to see shapes or a log.
template <typename... Tensors>
void note_call(OperatorRecord& record, const Tensors&... operands) {
  record.calls.fetch_add(1, std::memory_order_relaxed);
  if (C10_UNLIKELY(operators_are_observed())) {
    const at::TensorBase* list[] = {&operands..., nullptr};
    detail::observe(record, {list, sizeof...(operands)});
  }
}

}  // namespace torch_trainium
