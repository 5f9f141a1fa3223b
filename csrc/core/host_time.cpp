#include "core/host_time.h"

#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/graph_task.h>

#include <memory>
#include <string_view>
#include <utility>

#include "core/device.h"
#include "timeline/host_clock.h"

namespace torch_trainium {
namespace {

using timeline::HostClock;

constexpr std::string_view kSlotName = "NEURON_HOST_CLOCK";
const c10::DebugInfoKind kSlot(&kSlotName);

// PyTorch hands this on to the threads that work for the one that owns the clock.
struct ClockInfo final : c10::DebugInfoBase {
  explicit ClockInfo(std::shared_ptr<HostClock> owner) : clock(std::move(owner)) {}
  const std::shared_ptr<HostClock> clock;
};

}  // namespace

void follow_calling_thread() {
  HostClock& own = HostClock::of_this_thread();
  const auto* info = static_cast<const ClockInfo*>(c10::ThreadLocalDebugInfo::get(kSlot));
  if (info == nullptr) {
    // Profilers take their own information off the top, so ours goes below or nowhere.
    if (c10::ThreadLocalDebugInfo::current() == nullptr) {
      c10::ThreadLocalDebugInfo::_push(
          kSlot, std::make_shared<ClockInfo>(HostClock::share_of_this_thread()));
    }
    return;
  }
  if (info->clock.get() == &own) {
    own.unfollow();
  } else {
    own.follow(info->clock, torch::autograd::get_current_graph_task_id());
  }
}

runtime::Runtime& timed_runtime() {
  follow_calling_thread();
  return runtime_or_raise();
}

}  // namespace torch_trainium
