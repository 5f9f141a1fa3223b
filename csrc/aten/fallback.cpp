#include "aten/fallback.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

namespace torch_trainium {
namespace {

struct State {
  std::mutex mutex;
  FallbackPolicies policies;
  std::map<std::string, FallbackTotal> totals;
  std::set<std::string> warned;
  FallbackVoices voices;
};

State& state() {
  static auto* instance = new State;  // kernels may run after static destructors
  return *instance;
}

std::atomic<bool> native_means_expressible{false};
thread_local RefusedProgram* refused_program = nullptr;

FallbackPolicy policy_of(const State& locked, const std::string& name) {
  const auto chosen = locked.policies.of_operator.find(name);
  return chosen == locked.policies.of_operator.end() ? locked.policies.otherwise : chosen->second;
}

std::string describe(const OperatorRecord& record, const std::string& reason) {
  return record.name + " has no program on " + classified_chip() + ": " + reason;
}

std::string rounded(double value, const char* unit) {
  char text[32];
  std::snprintf(text, sizeof(text), value < 10 ? "%.1f %s" : "%.0f %s", value, unit);
  return text;
}

std::string bytes_text(int64_t bytes) {
  const auto count = static_cast<double>(bytes);
  if (bytes < 1000) return rounded(count, "B");
  if (bytes < 1000000) return rounded(count / 1e3, "kB");
  return rounded(count / 1e6, "MB");
}

}  // namespace

FallbackPolicies fallback_policies() {
  const std::lock_guard lock(state().mutex);
  return state().policies;
}

void set_fallback_policies(FallbackPolicies policies) {
  const std::lock_guard lock(state().mutex);
  state().policies = std::move(policies);
}

void set_fallback_voices(FallbackVoices voices) {
  const std::lock_guard lock(state().mutex);
  state().voices = std::move(voices);
}

std::map<std::string, FallbackTotal> fallback_totals() {
  const std::lock_guard lock(state().mutex);
  return state().totals;
}

void reset_fallback_totals() {
  const std::lock_guard lock(state().mutex);
  state().totals.clear();
  state().warned.clear();
}

void set_native_means_expressible(bool enabled) { native_means_expressible.store(enabled); }

std::string CallDtypes::reason(const OperatorRecord& record) const {
  if (native_means_expressible.load(std::memory_order_relaxed)) return {};
  if (const Dtypes missing = all_ & record.missing_dtypes) {
    const auto lowest = static_cast<c10::ScalarType>(__builtin_ctzll(missing));
    return reason_of_missing(lowest);
  }
  const Classification& classification = record.classification;
  if ((first_ & classification.fallback) == 0) {
    if (use_ == nullptr || (first_ & use_->fallback) == 0) return {};
    return "with " + classification.deciding_argument + "=" + use_->value + ", " + use_->reason;
  }
  if (!classification.reason.empty()) return classification.reason;
  const auto dtype = static_cast<c10::ScalarType>(__builtin_ctzll(first_));
  return std::string("no check has run a program of it for ") + c10::toString(dtype);
}

void refuse_fallback(const OperatorRecord& record, const std::string& reason) {
  std::function<void(const std::string&)> raise;
  {
    const std::lock_guard lock(state().mutex);
    if (policy_of(state(), record.name) != FallbackPolicy::kError) return;
    raise = state().voices.raise;
  }
  const std::string message = describe(record, reason) +
                              ". It would run on the CPU, which the fallback policy \"error\" "
                              "refuses; torch.neuron.set_fallback(\"warn\") lets it";
  if (raise) raise(message);
  TORCH_CHECK_NOT_IMPLEMENTED(false, message);
}

void refuse_fallback(const OperatorRecord& record, const at::TensorBase& first) {
  CallDtypes dtypes;
  dtypes.add_tensor(*first.unsafeGetTensorImpl());
  if (C10_LIKELY(!dtypes.fall_back(record))) return;
  const std::string reason = dtypes.reason(record);
  if (!reason.empty()) refuse_fallback(record, reason);
}

void note_fallback(const OperatorRecord& record, const std::string& reason, int64_t bytes,
                   int64_t device_ps) {
  std::function<void(const std::string&)> warn;
  {
    const std::lock_guard lock(state().mutex);
    FallbackTotal& total = state().totals[record.name];
    if (total.calls++ == 0) total.reason = reason;
    total.bytes += bytes;
    total.device_ps += device_ps;
    if (policy_of(state(), record.name) == FallbackPolicy::kWarn &&
        state().warned.insert(record.name).second) {
      warn = state().voices.warn;
    }
  }
  if (!warn) return;
  warn(describe(record, reason) + ". It runs on the CPU: this call moves " + bytes_text(bytes) +
       " and takes " + rounded(static_cast<double>(device_ps) / 1e6, "us") +
       " of the device's time by the cost model");
}

RefusedProgram::RefusedProgram(const OperatorRecord& record, std::string reason)
    : record_(record), reason_(std::move(reason)), outer_(std::exchange(refused_program, this)) {
  count_.fetch_add(1, std::memory_order_relaxed);
}

RefusedProgram::~RefusedProgram() {
  refused_program = outer_;
  count_.fetch_sub(1, std::memory_order_relaxed);
}

std::string RefusedProgram::take(const OperatorRecord& record) {
  if (refused_program == nullptr || &refused_program->record_ != &record) return {};
  return std::exchange(refused_program->reason_, {});
}

}  // namespace torch_trainium
