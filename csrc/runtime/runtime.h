// The device interface. Everything above it is the same for the emulator and
// for the vendor's libnrt; nothing here includes ATen, c10 or Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace torch_trainium::timeline {
class CallSource;
class Timeline;
}  // namespace torch_trainium::timeline

namespace torch_trainium::runtime {

// A stream is named by the device it belongs to and an id unique on it; id 0 is
// the device's default stream.
using StreamId = int64_t;

// What one process sees: `device_count` logical cores, of which
// `devices_per_hbm_stack` share one stack of `hbm_stack_bytes`.
struct Machine {
  std::string instance_type;
  std::string device_name;
  std::string architecture;
  int device_count = 0;
  int logical_core_size = 0;  // physical cores per device (LNC)
  int devices_per_hbm_stack = 1;
  size_t hbm_stack_bytes = 0;
  // Whether the device range is PROT_NONE and kernels use a second mapping.
  bool guard_device_memory = false;
};

struct MemoryInfo {
  size_t free_bytes;
  size_t total_bytes;
};

enum class AllocationStatus : uint8_t { kOk, kDeviceMemoryExhausted, kHostMemoryExhausted };

struct Allocation {
  AllocationStatus status;
  void* address;  // in the device's address range
};

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class WorkKind : uint8_t { kKernel, kCopy, kFill };

// One unit of device work. The emulator runs `body(context)` on the host; an
// engine with programs of its own reads the record instead.
struct Work {
  WorkKind kind;
  int device;
  StreamId stream;
  uint32_t operator_id;  // row of the operator table
  // Asked for once the body has run.
  const timeline::CallSource* call;
  // Whether the host goes on only when the work is done, as after a blocking copy.
  bool host_waits;
  void (*body)(void* context);
  void* context;
};

class Runtime {
 public:
  virtual ~Runtime() = default;

  virtual const Machine& machine() const noexcept = 0;

  // Segments of HBM. Addresses are unique over all devices of the process.
  virtual Allocation allocate(int device, size_t bytes) = 0;
  virtual void release(int device, void* address, size_t bytes) noexcept = 0;
  // Gives the physical pages behind [address, address + bytes) back while the
  // addresses stay allocated; their contents become unspecified.
  virtual void discard(int device, void* address, size_t bytes) noexcept = 0;
  virtual MemoryInfo memory_info(int device) const = 0;
  // The device whose range holds `address`, or -1.
  virtual int device_of(const void* address) const noexcept = 0;
  // Where the host engine reads and writes the bytes of a device address:
  // `address + host_offset()`. Zero unless device memory is guarded.
  virtual ptrdiff_t host_offset() const noexcept = 0;

  // Every kernel, copy and fill passes here.
  virtual void submit(const Work& work) = 0;

  // Streams and events. Times are picoseconds of the device's clock; what is asked
  // here takes time of the calling thread's host clock.
  virtual void* create_event(int device) = 0;
  virtual void destroy_event(void* event) noexcept = 0;
  virtual void record_event(void* event, int device, StreamId stream) = 0;
  virtual void wait_event(void* event, int device, StreamId stream) = 0;
  virtual bool query_event(void* event) = 0;
  virtual void synchronize_event(void* event) = 0;
  virtual int64_t event_time_ps(void* event) = 0;
  virtual bool query_stream(int device, StreamId stream) = 0;
  virtual void synchronize_stream(int device, StreamId stream) = 0;
  virtual void synchronize_device(int device) = 0;

  // What was charged when, where the clock is virtual; null on hardware.
  virtual timeline::Timeline* virtual_timeline() noexcept = 0;
};

// The process's runtime. `configure` says which machine `get` shall create on
// first use; it fails once the runtime exists.
void configure(const Machine& machine);
const Machine& configured_machine();
// The runtime, created on first call. Throws Error in a process forked after
// the parent had created it.
Runtime& get();
bool is_created() noexcept;
// True in a child forked after the parent created its runtime.
bool is_in_bad_fork() noexcept;

}  // namespace torch_trainium::runtime
