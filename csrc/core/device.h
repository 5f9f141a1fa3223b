// Device index, current device and current streams of the calling thread.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <functional>
#include <string>

#include "runtime/runtime.h"

namespace torch_trainium::runtime {
struct TimingModel;
}  // namespace torch_trainium::runtime

namespace torch_trainium {

inline constexpr c10::DeviceType kNeuron = c10::DeviceType::PrivateUse1;

// Number of visible devices; 0 where the configuration is unusable. Never throws.
c10::DeviceIndex device_count() noexcept;
c10::DeviceIndex current_device();
void set_device(c10::DeviceIndex device);
// Raises for an index that is not in [0, device_count()).
void check_device(c10::DeviceIndex device);
// -1 becomes the current device; anything else is checked.
c10::DeviceIndex resolve_device(c10::DeviceIndex device);

// Why no device can be used, or empty. Set by the package at import.
void set_unavailable_reason(std::string reason);
const std::string& unavailable_reason();

// The runtime, created on first use; raises c10::Error with the remedy where it
// cannot be used (bad configuration, forked child).
runtime::Runtime& runtime_or_raise();

// Asked once, before the runtime is created, for the numbers behind its clock.
using TimingSource = std::function<runtime::TimingModel()>;
void set_timing_source(TimingSource source);

c10::Stream current_stream(c10::DeviceIndex device);
c10::Stream default_stream(c10::DeviceIndex device);
// Makes `stream` current on its device for this thread; returns the previous one.
c10::Stream exchange_stream(c10::Stream stream);
// Streams are handed out round-robin from a fixed pool per device and priority.
c10::Stream stream_from_pool(c10::DeviceIndex device, int priority);

}  // namespace torch_trainium
