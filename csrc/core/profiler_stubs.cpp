// Device times of operators for torch.profiler (activity PrivateUse1).
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

#include "core/device.h"
#include "core/host_time.h"
#include "core/stream_order.h"

namespace torch_trainium {
namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

class NeuronProfilerStubs final : public torch::profiler::impl::ProfilerStubs {
 public:
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event,
              int64_t* cpu_ns) const override {
    runtime::Runtime& runtime = timed_runtime();
    const c10::DeviceIndex current = current_device();
    if (device != nullptr) *device = current;
    *event = ProfilerVoidEventStub(runtime.create_event(current),
                                   [&runtime](void* handle) { runtime.destroy_event(handle); });
    if (cpu_ns != nullptr) *cpu_ns = c10::getTime();
    runtime.record_event(event->get(), current, current_stream(current).id());
  }
  // Microseconds.
  float elapsed(const ProfilerVoidEventStub* start,
                const ProfilerVoidEventStub* end) const override {
    runtime::Runtime& runtime = runtime_or_raise();
    constexpr float kPicosecondsPerMicrosecond = 1e6F;
    return static_cast<float>(runtime.event_time_ps(end->get()) -
                              runtime.event_time_ps(start->get())) /
           kPicosecondsPerMicrosecond;
  }
  void onEachDevice(std::function<void(int)> visit) const override {
    for (int device = 0; device < device_count(); ++device) visit(device);
  }
  void synchronize() const override { synchronize_device(current_device()); }
  bool enabled() const override { return device_count() > 0; }
  // The device's timeline has no named ranges.
  void mark(const char* /*name*/) const override {}
  void rangePush(const char* /*name*/) const override {}
  void rangePop() const override {}
};

NeuronProfilerStubs stubs;

const bool registered = [] {
  torch::profiler::impl::registerPrivateUse1Methods(&stubs);
  return true;
}();

}  // namespace
}  // namespace torch_trainium
