#include "core/allocator.h"

#include <c10/core/AllocatorConfig.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>
#include <mutex>

#include "core/device.h"
#include "core/device_heap.h"
#include "core/host_time.h"
#include "core/operator_names.h"
#include "core/out_of_memory.h"
#include "core/stream_order.h"
#include "timeline/operator_call.h"

namespace torch_trainium {
namespace {

using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;

constexpr size_t kMaxDevices = std::numeric_limits<c10::DeviceIndex>::max();
// One exabyte: what is above is a mistake, and rounding it could overflow.
constexpr size_t kAbsurdBytes = size_t{1} << 60;

struct PoolRoute {
  c10::MempoolId_t pool;
  c10::DeviceIndex device;
  PoolRoute* outer;
};

struct ThreadState {
  int provisional_depth = 0;
  DeviceHeap* provisional_heap = nullptr;  // has allocations that no peak counts yet
  PoolRoute* routes = nullptr;
};
constinit thread_local ThreadState thread_state;

// Leaked on purpose: tensors may die after static destructors ran.
std::array<std::atomic<DeviceHeap*>, kMaxDevices> heaps{};
std::mutex creation_mutex;
TraceOptions trace_options;  // guarded by creation_mutex
std::atomic<bool> rounds_to_power2_divisions{false};

void read_settings() {
  bool divides = false;
  for (const size_t divisions : Config::roundup_power2_divisions()) {
    divides |= divisions > 1;
  }
  rounds_to_power2_divisions = divides;
  if (Config::use_expandable_segments()) {
    TORCH_WARN_ONCE(
        "PYTORCH_ALLOC_CONF: expandable_segments has no effect on neuron devices. Their address "
        "range is reserved as a whole and pages are committed on first use, so a segment that "
        "is not full costs address space only.");
  }
}

[[gnu::noinline]] DeviceHeap& create_heap(c10::DeviceIndex device) {
  runtime::Runtime& runtime = runtime_or_raise();
  check_device(device);
  const std::lock_guard lock(creation_mutex);
  std::atomic<DeviceHeap*>& slot = heaps[static_cast<size_t>(device)];
  if (slot.load() == nullptr) {
    read_settings();
    auto* heap = new DeviceHeap(runtime, device);
    heap->configure_trace(trace_options, false);
    slot = heap;
  }
  return *slot.load();
}

DeviceHeap& heap_of(c10::DeviceIndex device) {
  if (runtime::is_in_bad_fork()) [[unlikely]] {
    runtime_or_raise();
  }
  if (device < 0) [[unlikely]] {
    check_device(device);
  }
  DeviceHeap* heap = heaps[static_cast<size_t>(device)].load(std::memory_order_acquire);
  return heap != nullptr ? *heap : create_heap(device);
}

// Null where nothing was allocated on the device yet.
DeviceHeap* existing_heap(c10::DeviceIndex device) {
  if (runtime::is_in_bad_fork()) {
    runtime_or_raise();
  }
  check_device(device);
  return heaps[static_cast<size_t>(device)].load(std::memory_order_acquire);
}

template <typename Function>
void for_each_heap(Function function) {
  for (const auto& slot : heaps) {
    if (DeviceHeap* heap = slot.load(std::memory_order_acquire)) {
      function(*heap);
    }
  }
}

// The next of `divisions` equal steps between two powers of two.
size_t round_to_division(size_t bytes, size_t divisions) {
  if (divisions <= 1 || bytes <= kMinBlockBytes * divisions) {
    return bytes;
  }
  const size_t step = std::bit_floor(bytes) / divisions;
  return (bytes + step - 1) / step * step;
}

size_t block_bytes(size_t bytes) {
  if (rounds_to_power2_divisions.load(std::memory_order_relaxed)) [[unlikely]] {
    bytes = round_to_division(bytes, Config::roundup_power2_divisions(bytes));
  }
  return (bytes + kMinBlockBytes - 1) & ~(kMinBlockBytes - 1);
}

c10::MempoolId_t routed_pool(c10::DeviceIndex device) {
  for (const PoolRoute* route = thread_state.routes; route != nullptr; route = route->outer) {
    if (route->device == device) {
      return route->pool;
    }
  }
  return kDefaultPool;
}

// Makes room by releasing what is cached, on every device that could hold memory
// of the same HBM stack.
[[gnu::noinline]] Grant allocate_after_release(DeviceHeap& heap, const MemoryRequest& request) {
  heap.count_retry();
  heap.release_cached(kDefaultPool, request.context);
  Grant grant = heap.allocate(request);
  if (grant.block == nullptr && runtime_or_raise().machine().devices_per_hbm_stack > 1) {
    for_each_heap([&](DeviceHeap& other) {
      if (&other != &heap) {
        other.release_cached(kDefaultPool);
      }
    });
    grant = heap.allocate(request);
  }
  if (grant.block == nullptr) {
    const runtime::AllocationStatus status = grant.status;
    grant = heap.allocate_from_lending_pools(request);
    if (grant.block == nullptr) {
      heap.count_out_of_memory(request);
      raise_out_of_memory(request, heap, status);
    }
  }
  return grant;
}

void free_block(void* context) {
  auto* block = static_cast<Block*>(context);
  if (runtime::is_in_bad_fork()) [[unlikely]] {
    return;  // the memory is the parent's
  }
  DeviceHeap& heap = block->pool->arena().heap;
  const auto device = c10::Device(kNeuron, heap.device());
  std::byte* address = block->address;
  const auto bytes = static_cast<int64_t>(block->size);
  note_memory_freed(address, block->size, {heap.device(), block->pool->arena().stream});
  GatheredContextPtr stack;
  if (is_recording()) [[unlikely]] {
    stack = gather_context(RecordContext::ALL);
  }
  const HeapTotals totals = heap.free(block, stack);
  c10::reportMemoryUsageToProfiler(address, -bytes, totals.allocated_bytes, totals.reserved_bytes,
                                   device);
}

// Bytes of one storage to another.
class StorageCopy final : public timeline::CallSource {
 public:
  StorageCopy(std::byte* to, const std::byte* from, size_t bytes)
      : to_(to), from_(from), bytes_(static_cast<int64_t>(bytes)) {}

  void run() const { std::memcpy(to_, from_, static_cast<size_t>(bytes_)); }

  timeline::OperatorCall describe(std::vector<timeline::Operand>& operands) const override {
    timeline::Operand operand{.sizes = &bytes_,
                              .rank = 1,
                              .element = timeline::Element::kInt8,
                              .element_bytes = 1,
                              .is_dense = true,
                              .is_written = true,
                              .is_on_host = false,
                              .elements = bytes_};
    operands.assign(1, operand);
    operand.is_written = false;
    operands.push_back(operand);
    return {timeline::CostClass::kCopy, operands.data(), 2, 0};
  }
  void add_accesses(std::vector<timeline::Access>& accesses) const override {
    const auto bytes = static_cast<size_t>(bytes_);
    accesses.push_back(timeline::access_to_bytes(to_, bytes, /*is_written=*/true));
    accesses.push_back(timeline::access_to_bytes(from_, bytes, /*is_written=*/false));
  }

 private:
  std::byte* const to_;
  const std::byte* const from_;
  const int64_t bytes_;
};

class NeuronAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    return allocate_device_memory(bytes, current_device());
  }

  void copy_data(void* dest, const void* src, size_t count) const override {
    static const uint32_t storage_copy = operator_id("neuron::storage_copy");
    runtime::Runtime& runtime = runtime_or_raise();
    const auto device = static_cast<c10::DeviceIndex>(runtime.device_of(dest));
    StorageCopy copy(static_cast<std::byte*>(dest) + runtime.host_offset(),
                     static_cast<const std::byte*>(src) + runtime.host_offset(), count);
    follow_calling_thread();
    runtime.submit({.kind = runtime::WorkKind::kCopy,
                    .device = device,
                    .stream = current_stream(device).id(),
                    .operator_id = storage_copy,
                    .call = &copy,
                    .host_waits = false,
                    .body = [](void* context) { static_cast<StorageCopy*>(context)->run(); },
                    .context = &copy});
  }

  bool initialized() override { return runtime::is_created(); }

  void emptyCache(c10::MempoolId_t pool) override {
    if (!runtime::is_in_bad_fork()) {
      for_each_heap([&](DeviceHeap& heap) { heap.release_cached(pool); });
    }
  }

  void recordStream(const c10::DataPtr& ptr, c10::Stream stream) override {
    // Memory that came from elsewhere is not ours to keep alive.
    if (!is_device_allocation(ptr) || ptr.get() == nullptr) {
      return;
    }
    TORCH_CHECK(stream.device_type() == kNeuron, "record_stream needs a neuron stream, got ",
                stream);
    runtime_or_raise();
    auto* block = static_cast<Block*>(ptr.get_context());
    note_memory_recorded(block->address, block->size, {stream.device_index(), stream.id()});
    block->pool->arena().heap.record_stream(block, stream);
  }

  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    DeviceHeap* heap = existing_heap(device);
    return heap != nullptr ? heap->stats() : DeviceStats{};
  }

  void resetAccumulatedStats(c10::DeviceIndex device) override {
    if (DeviceHeap* heap = existing_heap(device)) {
      heap->reset_accumulated();
    }
  }

  void resetPeakStats(c10::DeviceIndex device) override {
    if (DeviceHeap* heap = existing_heap(device)) {
      heap->reset_peak();
    }
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    runtime::Runtime& runtime = runtime_or_raise();
    check_device(device);
    const runtime::MemoryInfo info = runtime.memory_info(device);
    return {info.free_bytes, info.total_bytes};
  }
};

NeuronAllocator& allocator() {
  static auto* instance = new NeuronAllocator;
  return *instance;
}

REGISTER_ALLOCATOR(c10::kPrivateUse1, &allocator())

// Follows torch._C._accelerator_setAllocatorSettings.
const c10::CachingAllocator::DeviceConfigParserHookRegistry settings_hook(
    [](const std::string&) { read_settings(); }, {});

}  // namespace

c10::DeviceAllocator* device_allocator() { return &allocator(); }

c10::DataPtr allocate_device_memory(size_t bytes, c10::DeviceIndex device) {
  if (device < 0) [[unlikely]] {
    check_device(device);
  }
  return allocate_device_memory(bytes, current_stream(device));
}

c10::DataPtr allocate_device_memory(size_t bytes, c10::Stream stream) {
  const c10::Device device = stream.device();
  DeviceHeap& heap = heap_of(device.index());
  if (bytes - 1 >= kAbsurdBytes) [[unlikely]] {
    if (bytes == 0) {
      return {nullptr, nullptr, &free_block, device};
    }
    raise_absurd_request(bytes);
  }
  ThreadState& thread = thread_state;
  MemoryRequest request{.requested_bytes = bytes,
                        .block_bytes = block_bytes(bytes),
                        .stream = stream.id(),
                        .pool_id = kDefaultPool,
                        .provisional = thread.provisional_depth > 0,
                        .context = nullptr};
  if (thread.routes != nullptr) [[unlikely]] {
    request.pool_id = routed_pool(device.index());
  }
  if (is_recording()) [[unlikely]] {
    request.context = gather_context(RecordContext::STATE);
  }
  Grant grant = heap.allocate(request);
  if (grant.block == nullptr) [[unlikely]] {
    grant = allocate_after_release(heap, request);
  }
  if (request.provisional && thread.provisional_heap != &heap) {
    if (thread.provisional_heap != nullptr) {
      thread.provisional_heap->raise_peaks();
    }
    thread.provisional_heap = &heap;
  }
  c10::reportMemoryUsageToProfiler(grant.block->address, static_cast<int64_t>(grant.block->size),
                                   grant.totals.allocated_bytes, grant.totals.reserved_bytes,
                                   device);
  return {grant.block->address, grant.block, &free_block, device};
}

bool is_device_allocation(const c10::DataPtr& ptr) noexcept {
  return ptr.get_deleter() == &free_block;
}

ProvisionalAllocations::ProvisionalAllocations() noexcept { ++thread_state.provisional_depth; }

ProvisionalAllocations::~ProvisionalAllocations() {
  ThreadState& thread = thread_state;
  if (--thread.provisional_depth == 0 && thread.provisional_heap != nullptr) {
    thread.provisional_heap->raise_peaks();
    thread.provisional_heap = nullptr;
  }
}

int64_t allocated_bytes(int device) {
  const auto stats = device_allocator()->getDeviceStats(static_cast<c10::DeviceIndex>(device));
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return stats.allocated_bytes[kAll].current;
}

void set_memory_fraction(double fraction, c10::DeviceIndex device) {
  TORCH_CHECK_VALUE(fraction >= 0 && fraction <= 1, "Invalid fraction value: ", fraction,
                    ". Allowed range: 0~1");
  heap_of(device).set_memory_fraction(fraction);
}

double memory_fraction(c10::DeviceIndex device) { return heap_of(device).memory_fraction(); }

c10::MempoolId_t create_memory_pool(c10::DeviceIndex device, bool use_on_oom, bool no_split) {
  static std::atomic<c10::CaptureId_t> next{1};
  const c10::MempoolId_t id{0, next.fetch_add(1)};
  heap_of(device).create_pool(id, use_on_oom, no_split);
  return id;
}

void retain_memory_pool(c10::MempoolId_t pool, c10::DeviceIndex device) {
  heap_of(device).retain_pool(pool);
}

void release_memory_pool(c10::MempoolId_t pool, c10::DeviceIndex device) {
  if (!runtime::is_in_bad_fork()) {
    heap_of(device).release_pool(pool);
  }
}

int memory_pool_use_count(c10::MempoolId_t pool, c10::DeviceIndex device) {
  return heap_of(device).pool_use_count(pool);
}

void begin_allocating_to_pool(c10::MempoolId_t pool, c10::DeviceIndex device) {
  heap_of(device).retain_pool(pool);
  thread_state.routes = new PoolRoute{pool, device, thread_state.routes};
}

void end_allocating_to_pool(c10::MempoolId_t pool, c10::DeviceIndex device) {
  PoolRoute** link = &thread_state.routes;
  while (*link != nullptr && ((*link)->pool != pool || (*link)->device != device)) {
    link = &(*link)->outer;
  }
  TORCH_CHECK(*link != nullptr, "This thread does not allocate to the memory pool (", pool.first,
              ", ", pool.second, ") of neuron:", static_cast<int>(device));
  const std::unique_ptr<PoolRoute> route(*link);
  *link = route->outer;
  release_memory_pool(pool, device);
}

void record_memory_history(const TraceOptions& options, bool clear) {
  start_trace_clock();
  const std::lock_guard lock(creation_mutex);
  trace_options = options;
  for_each_heap([&](DeviceHeap& heap) { heap.configure_trace(options, clear); });
  set_gathering(options);
}

MemorySnapshot memory_snapshot(std::optional<c10::MempoolId_t> pool, bool with_traces) {
  if (runtime::is_in_bad_fork()) {
    runtime_or_raise();
  }
  MemorySnapshot snapshot;
  snapshot.device_traces.resize(static_cast<size_t>(device_count()));
  for_each_heap([&](DeviceHeap& heap) {
    heap.snapshot(pool, snapshot.segments);
    if (with_traces) {
      heap.mark_snapshot();
      auto& trace = snapshot.device_traces[static_cast<size_t>(heap.device())];
      trace = heap.trace();
      convert_to_unix_time(trace);
    }
  });
  return snapshot;
}

std::shared_ptr<c10::GatheredContext> allocation_context(const void* address) {
  if (!runtime::is_created()) {
    return nullptr;
  }
  const int device = runtime_or_raise().device_of(address);
  return device < 0 ? nullptr : heap_of(static_cast<c10::DeviceIndex>(device)).context_of(address);
}

}  // namespace torch_trainium
