#include "core/device.h"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <limits>
#include <utility>

#include "runtime/timing_model.h"

namespace torch_trainium {
namespace {

constexpr int kMaxDevices = std::numeric_limits<c10::DeviceIndex>::max();
constexpr int kStreamsPerPool = 32;

thread_local c10::DeviceIndex thread_device = 0;
// Stream id 0, the default stream, is what a new thread starts with.
thread_local std::array<c10::StreamId, kMaxDevices> thread_streams{};

TimingSource& timing_source() {
  static TimingSource source;
  return source;
}

std::string& unavailable() {
  static std::string reason;
  return reason;
}

}  // namespace

c10::DeviceIndex device_count() noexcept {
  if (!unavailable().empty()) return 0;
  return static_cast<c10::DeviceIndex>(runtime::configured_machine().device_count);
}

c10::DeviceIndex current_device() { return thread_device; }

void check_device(c10::DeviceIndex device) {
  if (C10_LIKELY(device >= 0 && device < device_count())) return;
  TORCH_CHECK(unavailable().empty(), "No neuron device is available: ", unavailable());
  TORCH_CHECK(false, "Invalid neuron device index ", static_cast<int>(device),
              ": this process sees ", static_cast<int>(device_count()),
              " device(s), neuron:0 to neuron:", static_cast<int>(device_count()) - 1,
              ". TORCH_TRAINIUM_INSTANCE, NEURON_RT_VISIBLE_CORES and NEURON_RT_NUM_CORES choose "
              "how many are visible");
}

void set_device(c10::DeviceIndex device) {
  check_device(device);
  thread_device = device;
}

c10::DeviceIndex resolve_device(c10::DeviceIndex device) {
  if (device == -1) return thread_device;
  check_device(device);
  return device;
}

void set_unavailable_reason(std::string reason) { unavailable() = std::move(reason); }

const std::string& unavailable_reason() { return unavailable(); }

void set_timing_source(TimingSource source) { timing_source() = std::move(source); }

runtime::Runtime& runtime_or_raise() {
  TORCH_CHECK(unavailable().empty(), "No neuron device is available: ", unavailable());
  // Before the runtime takes its lock: the source may wait for the interpreter.
  if (C10_UNLIKELY(!runtime::is_created() && !runtime::is_timing_configured())) {
    runtime::configure_timing(timing_source()());
  }
  try {
    return runtime::get();
  } catch (const runtime::Error& error) {
    TORCH_CHECK(false, error.what());
  }
}

c10::Stream current_stream(c10::DeviceIndex device) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNeuron, device),
                     thread_streams[static_cast<size_t>(device)]);
}

c10::Stream default_stream(c10::DeviceIndex device) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNeuron, device), 0);
}

c10::Stream exchange_stream(c10::Stream stream) {
  check_device(stream.device_index());
  const c10::Stream previous = current_stream(stream.device_index());
  thread_streams[static_cast<size_t>(stream.device_index())] = stream.id();
  return previous;
}

c10::Stream stream_from_pool(c10::DeviceIndex device, int priority) {
  static std::array<std::array<std::atomic<uint32_t>, 2>, kMaxDevices> next{};
  check_device(device);
  const size_t pool = priority < 0 ? 1 : 0;
  const uint32_t turn = next[static_cast<size_t>(device)][pool].fetch_add(1) % kStreamsPerPool;
  const auto id = static_cast<c10::StreamId>(1 + pool * kStreamsPerPool + turn);
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNeuron, device), id);
}

}  // namespace torch_trainium
