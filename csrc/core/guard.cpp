#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "core/allocator.h"
#include "core/device.h"
#include "core/host_time.h"
#include "core/stream_order.h"

namespace torch_trainium {
namespace {

struct Event {
  void* handle;
  c10::DeviceIndex device;
  bool timing;
};

class NeuronGuardImpl final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kNeuron; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device previous = getDevice();
    if (device.index() != previous.index()) setDevice(device);
    return previous;
  }
  c10::Device getDevice() const override { return {kNeuron, current_device()}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.type() == kNeuron, "Expected a neuron device, but got ", device);
    if (device.index() != -1) set_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0 && device.index() < device_count()) set_device(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }
  c10::DeviceCapability getDeviceCapability(c10::Device /*device*/) const override {
    c10::DeviceCapability capability;
    auto& supported = capability.capability_data.supported_scalar_types;
    supported.has_QInt8 = 0;
    supported.has_QUInt8 = 0;
    supported.has_QInt32 = 0;
    supported.has_QUInt4x2 = 0;
    supported.has_QUInt2x4 = 0;
    return capability;
  }

  c10::Stream getStream(c10::Device device) const override {
    return current_stream(resolve_device(device.index()));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return default_stream(resolve_device(device.index()));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return stream_from_pool(resolve_device(device.index()), high_priority ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return stream_from_pool(resolve_device(device.index()), priority);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>(stream.id());
  }
  bool queryStream(const c10::Stream& stream) const override { return query_stream(stream); }
  void synchronizeStream(const c10::Stream& stream) const override { synchronize_stream(stream); }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    synchronize_device(resolve_device(device));
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(device == -1 || device == stream.device_index(), "Event device index ",
                static_cast<int>(device), " does not match the recording stream's device index ",
                static_cast<int>(stream.device_index()));
    auto*& state = reinterpret_cast<Event*&>(*event);
    if (state == nullptr) {
      state = new Event{runtime_or_raise().create_event(stream.device_index()),
                        stream.device_index(), flag == c10::EventFlag::BACKEND_DEFAULT};
    }
    record_event(state->handle, stream);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    wait_event(static_cast<Event*>(event)->handle, stream);
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || query_event(static_cast<Event*>(event)->handle);
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) synchronize_event(static_cast<Event*>(event)->handle);
  }
  void destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept override {
    if (event == nullptr) return;
    auto* state = static_cast<Event*>(event);
    if (!runtime::is_in_bad_fork()) destroy_event(state->handle);
    delete state;
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex /*device*/) const override {
    TORCH_CHECK(start != nullptr && end != nullptr,
                "Both events must be recorded before their elapsed time can be computed");
    const auto* first = static_cast<Event*>(start);
    const auto* last = static_cast<Event*>(end);
    TORCH_CHECK_VALUE(first->timing && last->timing,
                      "Both events must be created with enable_timing=True to measure the time "
                      "between them");
    TORCH_CHECK_VALUE(first->device == last->device,
                      "The events were recorded on neuron:", static_cast<int>(first->device),
                      " and neuron:", static_cast<int>(last->device),
                      "; they must be on the same device");
    runtime::Runtime& runtime = timed_runtime();
    TORCH_CHECK(runtime.query_event(first->handle) && runtime.query_event(last->handle),
                "Both events must be completed before calculating elapsed time. Synchronize the "
                "second one, its stream or the device first");
    constexpr double kPicosecondsPerMillisecond = 1e9;
    return static_cast<double>(runtime.event_time_ps(last->handle) -
                               runtime.event_time_ps(first->handle)) /
           kPicosecondsPerMillisecond;
  }

  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    device_allocator()->recordStream(data, stream);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, NeuronGuardImpl);

}  // namespace
}  // namespace torch_trainium
