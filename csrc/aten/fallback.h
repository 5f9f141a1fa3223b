// CPU fallbacks: operators that the chip has no program for. They run on the host, and say so.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/core/TensorImpl.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "aten/classification.h"
#include "aten/operator_record.h"

namespace torch_trainium {

// What the user wants where an operator falls back: it runs and is counted, warns the first time as
// well, or raises before anything is written.
enum class FallbackPolicy : uint8_t { kAllow, kWarn, kError };

struct FallbackPolicies {
  FallbackPolicy otherwise = FallbackPolicy::kWarn;
  std::map<std::string, FallbackPolicy> of_operator;
};
FallbackPolicies fallback_policies();
void set_fallback_policies(FallbackPolicies policies);

// How the layers above warn and raise. `raise` does not return.
struct FallbackVoices {
  std::function<void(const std::string& message)> warn;
  std::function<void(const std::string& message)> raise;
};
void set_fallback_voices(FallbackVoices voices);

// What fell back since the start or the last reset, by operator.
struct FallbackTotal {
  uint64_t calls = 0;
  int64_t bytes = 0;      // moved between device and host
  int64_t device_ps = 0;  // of the virtual clock
  std::string reason;     // of the first
};
std::map<std::string, FallbackTotal> fallback_totals();
// Counts start again, and operators that have warned will warn again.
void reset_fallback_totals();

// While on, whatever has a lowering counts as native, whether or not the chip takes it: so that
// lowerings can be proven by running them.
void set_native_means_expressible(bool enabled);

// What decides whether a call falls back: the dtypes of its first tensor on a device, and of all
// that it takes, computes in or returns; and what the operator is used for.
class CallDtypes {
 public:
  void add(c10::ScalarType dtype) { all_ |= dtype_bit(dtype); }
  void add_tensor(const c10::TensorImpl& tensor) {
    add_tensor(c10::typeMetaToScalarType(tensor.dtype()));
  }
  void add_tensor(c10::ScalarType dtype) {
    const Dtypes bit = dtype_bit(dtype);
    if (first_ == 0) first_ = bit;
    all_ |= bit;
  }

  // Where an argument decides.
  void set_use(const UseClassification& use) { use_ = &use; }

  // Whether the call may fall back; `reason` says whether it does.
  bool fall_back(const OperatorRecord& record) const {
    return ((first_ & record.fallback_dtypes) | (all_ & record.missing_dtypes)) != 0;
  }
  // Why, where it does; "" where it does not, or the user lets expressible mean native.
  std::string reason(const OperatorRecord& record) const;
  bool are_one() const { return (all_ & (all_ - 1)) == 0; }

 private:
  Dtypes first_ = 0;
  Dtypes all_ = 0;
  const UseClassification* use_ = nullptr;
};

// Raises where the user refuses fallbacks of this operator.
void refuse_fallback(const OperatorRecord& record, const std::string& reason);
// The same for a call whose first tensor is this one, if it falls back. For what a kernel does
// before its HostCall, such as drawing random numbers.
void refuse_fallback(const OperatorRecord& record, const at::TensorBase& first);

// Counts a fallback that has run and, the first time, warns.
void note_fallback(const OperatorRecord& record, const std::string& reason, int64_t bytes,
                   int64_t device_ps);

// While alive, this thread's next call of `record` on the host engine is a fallback: there was no
// program for its arguments.
class RefusedProgram {
 public:
  RefusedProgram(const OperatorRecord& record, std::string reason);
  ~RefusedProgram();
  RefusedProgram(const RefusedProgram&) = delete;
  RefusedProgram& operator=(const RefusedProgram&) = delete;

  // Whether any thread has one.
  static bool exists() { return count_.load(std::memory_order_relaxed) != 0; }
  // The reason, once, where this thread's program of `record` was refused; else "".
  static std::string take(const OperatorRecord& record);

 private:
  static inline std::atomic<int> count_{0};

  const OperatorRecord& record_;
  std::string reason_;
  RefusedProgram* outer_;
};

}  // namespace torch_trainium
