#include "runtime/emulator.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <vector>

#include "runtime/address_space.h"
#include "runtime/device_fault.h"
#include "runtime/host_memory.h"
#include "runtime/work_observer.h"

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
  std::mutex mutex;
  int64_t time_ps = -1;  // -1 until recorded
};

class Emulator final : public Runtime {
 public:
  explicit Emulator(const Machine& machine)
      : machine_(machine), range_bytes_(round_up(machine.hbm_stack_bytes)) {
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
    WorkObserver* observer = work_observer.load(std::memory_order_acquire);
    if (observer == nullptr) [[likely]] {
      work.body(work.context);
      return;
    }
    const int64_t start_ns = steady_ns();
    work.body(work.context);
    observer->observe(work, {start_ns, device_ps(start_ns), device_ps(steady_ns())});
  }

  void* create_event(int /*device*/) override { return new Event; }
  void destroy_event(void* event) noexcept override { delete static_cast<Event*>(event); }

  void record_event(void* event, int /*device*/, StreamId /*stream*/) override {
    auto* recorded = static_cast<Event*>(event);
    const std::lock_guard lock(recorded->mutex);
    recorded->time_ps = device_ps(steady_ns());
  }

  int64_t event_time_ps(void* event) override {
    auto* recorded = static_cast<Event*>(event);
    const std::lock_guard lock(recorded->mutex);
    return recorded->time_ps;
  }

  // Work is done when `submit` returns, so nothing is ever pending.
  void wait_event(void* /*event*/, int /*device*/, StreamId /*stream*/) override {}
  bool query_event(void* /*event*/) override { return true; }
  void synchronize_event(void* /*event*/) override {}
  bool query_stream(int /*device*/, StreamId /*stream*/) override { return true; }
  void synchronize_stream(int /*device*/, StreamId /*stream*/) override {}
  void synchronize_device(int /*device*/) override {}

 private:
  static int64_t steady_ns() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  }
  // Counted from the start of the device, since picoseconds of a host's uptime
  // overflow within months.
  int64_t device_ps(int64_t host_ns) const { return (host_ns - powered_on_ns_) * 1000; }

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
  const size_t range_bytes_;
  const int64_t powered_on_ns_ = steady_ns();
  int memory_file_ = -1;
  std::byte* base_ = nullptr;
  ptrdiff_t host_offset_ = 0;
  mutable std::mutex mutex_;
  std::vector<AddressSpace> spaces_;
  std::vector<size_t> stack_used_bytes_;
  size_t reserved_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Runtime> create_emulator(const Machine& machine) {
  return std::make_unique<Emulator>(machine);
}

}  // namespace torch_trainium::runtime
