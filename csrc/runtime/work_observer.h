// Whoever wants to see all device work: profilers, scopes, checks. A runtime reads
// the table once per unit of work, and measures nothing where it is empty.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "runtime/runtime.h"
#include "timeline/timeline.h"

namespace torch_trainium::runtime {

struct WorkTimes {
  // When the host submitted it, by std::chrono::steady_clock.
  int64_t submitted_ns;
  // By the device's clock.
  timeline::Placement placement;
};

class WorkObserver {
 public:
  // Called on the submitting thread once the times are known. What it throws, the
  // operator raises.
  virtual void observe(const Work& work, const timeline::OperatorCall& call,
                       const WorkTimes& times) = 0;

 protected:
  ~WorkObserver() = default;
};

enum class Observer : uint8_t { kProfiler, kScope, kStreamSanitizer };
inline constexpr size_t kObservers = 3;

// An observer may be called until some time after its removal, so it lives for ever.
inline std::array<std::atomic<WorkObserver*>, kObservers> work_observers{};

inline void set_work_observer(Observer kind, WorkObserver* observer) {
  work_observers[static_cast<size_t>(kind)].store(observer, std::memory_order_release);
}

inline bool is_work_observed() {
  for (const auto& observer : work_observers) {
    if (observer.load(std::memory_order_relaxed) != nullptr) return true;
  }
  return false;
}

}  // namespace torch_trainium::runtime
