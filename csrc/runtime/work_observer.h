// Whoever wants to see all device work, such as a profiler. A runtime reads
// `work_observer` once per unit of work, and measures nothing where there is none.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/runtime.h"

namespace torch_trainium::runtime {

struct WorkTimes {
  // When the host submitted it, by std::chrono::steady_clock.
  int64_t submitted_ns;
  // When the work began and ended on the device, by the device's clock.
  int64_t start_ps;
  int64_t end_ps;
};

class WorkObserver {
 public:
  // Called on the submitting thread once the times are known.
  virtual void observe(const Work& work, const WorkTimes& times) noexcept = 0;

 protected:
  ~WorkObserver() = default;
};

// An observer may be called until some time after its removal, so it lives for ever.
inline std::atomic<WorkObserver*> work_observer{nullptr};

}  // namespace torch_trainium::runtime
