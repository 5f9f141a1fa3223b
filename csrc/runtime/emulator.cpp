#include "runtime/emulator.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <vector>

#include "runtime/address_space.h"
#include "runtime/device_fault.h"
#include "runtime/host_memory.h"
#include "runtime/timing_model.h"
#include "runtime/work_observer.h"
#include "timeline/timeline.h"

namespace torch_trainium::runtime {
namespace {

constexpr size_t kPageBytes = 4096;
// Kept free on the host, so that running out of memory is an error and not a kill.
constexpr size_t kHostReserveBytes = size_t{256} << 20;

size_t round_up(size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

std::byte* map_or_throw(void* hint, size_t bytes, int protection, int flags, int fd) {
  void* address = mmap(hint, bytes, protection, flags, fd, 0);
  if (address == MAP_FAILED) {
    throw Error("cannot reserve " + std::to_string(bytes) + " bytes of address space for the " +
                "emulated HBM: " + std::strerror(errno) +
                ". Raise the address space limit (ulimit -v) or set TORCH_TRAINIUM_HBM_BYTES or " +
                "NEURON_RT_NUM_CORES to a smaller value");
  }
  return static_cast<std::byte*>(address);
}

struct Event {
  std::atomic<int64_t> time_ps{-1};  // -1 until recorded
};

Event& event_at(void* event) { return *static_cast<Event*>(event); }

class Emulator final : public Runtime {
 public:
  Emulator(const Machine& machine, const TimingModel& timing)
      : machine_(machine),
        timeline_(machine.device_count, timing.devices_per_chip, timing.constants, timing.profile),
        range_bytes_(round_up(machine.hbm_stack_bytes)) {
    const size_t devices = static_cast<size_t>(machine.device_count);
    const size_t total = devices * range_bytes_;
    memory_file_ = memfd_create("torch-trainium-hbm", MFD_CLOEXEC);
    if (memory_file_ < 0 || ftruncate(memory_file_, static_cast<off_t>(total)) != 0) {
      throw Error(std::string("cannot create the emulated HBM: ") + std::strerror(errno));
    }
    const int flags = MAP_SHARED | MAP_NORESERVE;
    const int open = PROT_READ | PROT_WRITE;
    if (machine.guard_device_memory) {
      base_ = map_or_throw(nullptr, total, PROT_NONE, flags, memory_file_);
      host_offset_ = map_or_throw(nullptr, total, open, flags, memory_file_) - base_;
      report_device_faults(base_, total, range_bytes_);
    } else {
      base_ = map_or_throw(nullptr, total, open, flags, memory_file_);
    }
    spaces_.assign(devices, AddressSpace(range_bytes_));
    const size_t sharing = static_cast<size_t>(machine.devices_per_hbm_stack);
    stack_used_bytes_.assign((devices + sharing - 1) / sharing, 0);
  }

  const Machine& machine() const noexcept override { return machine_; }

  Allocation allocate(int device, size_t bytes) override {
    const std::lock_guard lock(mutex_);
    const size_t size = round_up(bytes);
    size_t& used = stack_used(device);
    if (size < bytes || used + size > machine_.hbm_stack_bytes) {
      return {AllocationStatus::kDeviceMemoryExhausted, nullptr};
    }
    if (!host_can_commit(size)) return {AllocationStatus::kHostMemoryExhausted, nullptr};
    const auto offset = space(device).take(size);
    if (!offset) return {AllocationStatus::kDeviceMemoryExhausted, nullptr};
    used += size;
    reserved_bytes_ += size;
    return {AllocationStatus::kOk, range_of(device) + *offset};
  }

  void release(int device, void* address, size_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    const size_t size = round_up(bytes);
    discard(device, address, size);
    space(device).give_back(
        static_cast<size_t>(static_cast<std::byte*>(address) - range_of(device)), size);
    stack_used(device) -= size;
    reserved_bytes_ -= size;
  }

  void discard(int /*device*/, void* address, size_t bytes) noexcept override {
    const off_t offset = static_cast<std::byte*>(address) - base_;
    fallocate(memory_file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
              static_cast<off_t>(bytes));
  }

  MemoryInfo memory_info(int device) const override {
    const std::lock_guard lock(mutex_);
    const size_t used = stack_used_bytes_[stack_of(device)];
    return {machine_.hbm_stack_bytes - used, machine_.hbm_stack_bytes};
  }

  int device_of(const void* address) const noexcept override {
    const auto* byte = static_cast<const std::byte*>(address);
    if (byte < base_ || byte >= base_ + range_bytes_ * spaces_.size()) return -1;
    return static_cast<int>(static_cast<size_t>(byte - base_) / range_bytes_);
  }

  ptrdiff_t host_offset() const noexcept override { return host_offset_; }

  void submit(const Work& work) override {
    const bool is_observed = is_work_observed();
    const int64_t submitted_ns = is_observed ? steady_ns() : 0;
    work.body(work.context);
    if (!timeline_.is_charging()) [[unlikely]]
      return;
    thread_local std::vector<timeline::Operand> operands;
    const timeline::OperatorCall call = work.call->describe(operands);
    if (call.cost_class == timeline::CostClass::kFree) return;  // a view by another name
    const timeline::Placement placement =
        timeline_.charge({work.device, work.stream, work.operator_id, work.host_waits}, call,
                         timeline::HostClock::of_this_thread());
    if (call.placement != nullptr) [[unlikely]]
      *call.placement = placement;
    if (is_observed) [[unlikely]]
      show_observers(work, call, {submitted_ns, placement});
  }

  void* create_event(int /*device*/) override { return new Event; }
  void destroy_event(void* event) noexcept override { delete static_cast<Event*>(event); }

  void record_event(void* event, int device, StreamId stream) override {
    event_at(event).time_ps = timeline_.record_event(device, stream, host());
  }
  int64_t event_time_ps(void* event) override { return event_at(event).time_ps; }

  // An event that was never recorded is nothing to wait for.
  void wait_event(void* event, int device, StreamId stream) override {
    timeline_.wait_event(device, stream, event_at(event).time_ps);
  }
  bool query_event(void* event) override {
    return timeline_.query(event_at(event).time_ps, host());
  }
  void synchronize_event(void* event) override {
    timeline_.synchronize(event_at(event).time_ps, host());
  }
  bool query_stream(int device, StreamId stream) override {
    return timeline_.query(timeline_.stream_end_ps(device, stream), host());
  }
  void synchronize_stream(int device, StreamId stream) override {
    timeline_.synchronize(timeline_.stream_end_ps(device, stream), host());
  }
  void synchronize_device(int device) override {
    timeline_.synchronize(timeline_.device_end_ps(device), host());
  }

  timeline::Timeline* virtual_timeline() noexcept override { return &timeline_; }

 private:
  static timeline::HostClock& host() { return timeline::HostClock::of_this_thread(); }
  static void show_observers(const Work& work, const timeline::OperatorCall& call,
                             const WorkTimes& times) {
    for (const auto& entry : work_observers) {
      WorkObserver* observer = entry.load(std::memory_order_acquire);
      if (observer != nullptr) observer->observe(work, call, times);
    }
  }

  static int64_t steady_ns() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  }

  size_t stack_of(int device) const {
    return static_cast<size_t>(device / machine_.devices_per_hbm_stack);
  }
  size_t& stack_used(int device) { return stack_used_bytes_[stack_of(device)]; }
  AddressSpace& space(int device) { return spaces_[static_cast<size_t>(device)]; }
  std::byte* range_of(int device) const {
    return base_ + static_cast<size_t>(device) * range_bytes_;
  }

  // Segments commit pages on first touch; count what is reserved but untouched
  // against what the host has left.
  bool host_can_commit(size_t bytes) const {
    struct stat status{};
    if (fstat(memory_file_, &status) != 0) return true;
    const size_t committed = static_cast<size_t>(status.st_blocks) * 512;
    const size_t promised = reserved_bytes_ > committed ? reserved_bytes_ - committed : 0;
    const size_t available = available_host_bytes();
    return available == SIZE_MAX || promised + bytes + kHostReserveBytes <= available;
  }

  const Machine machine_;
  timeline::Timeline timeline_;
  const size_t range_bytes_;
  int memory_file_ = -1;
  std::byte* base_ = nullptr;
  ptrdiff_t host_offset_ = 0;
  mutable std::mutex mutex_;
  std::vector<AddressSpace> spaces_;
  std::vector<size_t> stack_used_bytes_;
  size_t reserved_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Runtime> create_emulator(const Machine& machine, const TimingModel& timing) {
  return std::make_unique<Emulator>(machine, timing);
}

}  // namespace torch_trainium::runtime
