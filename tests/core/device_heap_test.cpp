// DeviceHeap on a device whose events complete when the test says so: what the
// emulator, which finishes work at once, cannot show. Runs the case named by the
// first argument; without one, prints the names of all.
#include "core/device_heap.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <set>
#include <vector>

#define EXPECT(condition)                                          \
  do {                                                             \
    if (!(condition)) {                                            \
      std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      std::exit(1);                                                \
    }                                                              \
  } while (false)

namespace torch_trainium {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

struct ManualRuntime final : runtime::Runtime {
  struct Event {
    runtime::StreamId stream = -1;
    bool complete = false;
  };

  runtime::Machine described;
  size_t capacity = 256 * kMiB;
  size_t used = 0;
  bool host_is_full = false;
  std::vector<Event*> events;  // alive, oldest first
  std::byte* next = reinterpret_cast<std::byte*>(size_t{1} << 40);

  const runtime::Machine& machine() const noexcept override { return described; }
  runtime::Allocation allocate(int, size_t bytes) override {
    if (host_is_full) return {runtime::AllocationStatus::kHostMemoryExhausted, nullptr};
    if (used + bytes > capacity) {
      return {runtime::AllocationStatus::kDeviceMemoryExhausted, nullptr};
    }
    used += bytes;
    return {runtime::AllocationStatus::kOk, std::exchange(next, next + bytes + 4096)};
  }
  void release(int, void*, size_t bytes) noexcept override { used -= bytes; }
  void discard(int, void*, size_t) noexcept override {}
  runtime::MemoryInfo memory_info(int) const override { return {capacity - used, capacity}; }
  int device_of(const void*) const noexcept override { return 0; }
  ptrdiff_t host_offset() const noexcept override { return 0; }
  void submit(const runtime::Work&) override {}
  void* create_event(int) override { return events.emplace_back(new Event); }
  void destroy_event(void* event) noexcept override {
    std::erase(events, event);
    delete static_cast<Event*>(event);
  }
  void record_event(void* event, int, runtime::StreamId stream) override {
    static_cast<Event*>(event)->stream = stream;
  }
  void wait_event(void*, int, runtime::StreamId) override {}
  bool query_event(void* event) override { return static_cast<Event*>(event)->complete; }
  void synchronize_event(void* event) override { static_cast<Event*>(event)->complete = true; }
  int64_t event_time_ps(void*) override { return 0; }
  bool query_stream(int, runtime::StreamId) override { return true; }
  void synchronize_stream(int, runtime::StreamId) override {}
  void synchronize_device(int) override {}
  torch_trainium::timeline::Timeline* virtual_timeline() noexcept override { return nullptr; }
};

struct Fixture {
  ManualRuntime runtime;
  DeviceHeap heap{runtime, 0};

  static MemoryRequest request(size_t bytes) {
    const size_t rounded = (bytes + kMinBlockBytes - 1) / kMinBlockBytes * kMinBlockBytes;
    return {bytes, rounded, 0, {0, 0}, false, nullptr};
  }
  Block* allocate(size_t bytes) { return heap.allocate(request(bytes)).block; }
  void use_on(Block* block, int64_t stream) {
    const c10::Device device(c10::DeviceType::PrivateUse1, 0);
    heap.record_stream(block, c10::Stream(c10::Stream::UNSAFE, device, stream));
  }
  void free(Block* block) { heap.free(block, nullptr); }
  int64_t reserved() { return heap.stats().reserved_bytes[0].current; }
};

void block_waits_for_every_stream_that_used_it() {
  Fixture f;
  Block* block = f.allocate(1000);
  const std::byte* address = block->address;
  f.use_on(block, 5);
  f.use_on(block, 7);
  f.use_on(block, 5);
  f.free(block);
  EXPECT(f.runtime.events.size() == 2);
  EXPECT(f.allocate(1000)->address != address);
  f.runtime.events[0]->complete = true;
  EXPECT(f.allocate(1000)->address != address);
  EXPECT(f.runtime.events.size() == 1);
  f.runtime.events[0]->complete = true;
  EXPECT(f.allocate(1000)->address == address);
  EXPECT(f.runtime.events.empty());
}

void own_stream_needs_no_event() {
  Fixture f;
  Block* block = f.allocate(1000);
  const std::byte* address = block->address;
  f.use_on(block, 0);
  f.free(block);
  EXPECT(f.runtime.events.empty());
  EXPECT(f.allocate(1000)->address == address);
}

void waiting_block_is_active_but_not_allocated() {
  Fixture f;
  Block* block = f.allocate(1000);
  f.use_on(block, 5);
  f.free(block);
  const DeviceStats stats = f.heap.stats();
  EXPECT(stats.allocation[0].current == 0);
  EXPECT(stats.allocated_bytes[0].current == 0);
  EXPECT(stats.active[0].current == 1);
  EXPECT(stats.active_bytes[0].current == 1024);
  EXPECT(stats.requested_bytes[0].current == 1000);
}

void releasing_the_cache_waits_for_events() {
  Fixture f;
  Block* block = f.allocate(30 * kMiB);
  f.use_on(block, 5);
  f.free(block);
  EXPECT(f.reserved() == 30 * kMiB);
  f.heap.release_cached({0, 0});
  EXPECT(f.reserved() == 0);
  EXPECT(f.runtime.used == 0);
  EXPECT(f.runtime.events.empty());
  EXPECT(f.heap.stats().num_sync_all_streams == 1);
}

void pool_released_while_a_block_waits_goes_after_the_event() {
  Fixture f;
  MemoryRequest request = Fixture::request(5 * kMiB);
  request.pool_id = {0, 9};
  f.heap.retain_pool(request.pool_id);
  Block* block = f.heap.allocate(request).block;
  f.use_on(block, 5);
  f.free(block);
  f.heap.release_pool(request.pool_id);
  EXPECT(f.reserved() == 20 * kMiB);
  f.runtime.events[0]->complete = true;
  f.allocate(1);
  EXPECT(f.reserved() == 2 * kMiB);
}

void failure_says_which_memory_ran_out() {
  Fixture f;
  f.runtime.host_is_full = true;
  const Grant host = f.heap.allocate(Fixture::request(100 * kMiB));
  EXPECT(host.block == nullptr);
  EXPECT(host.status == runtime::AllocationStatus::kHostMemoryExhausted);
  f.runtime.host_is_full = false;
  const Grant device = f.heap.allocate(Fixture::request(300 * kMiB));
  EXPECT(device.block == nullptr);
  EXPECT(device.status == runtime::AllocationStatus::kDeviceMemoryExhausted);
}

void best_fit_takes_the_lowest_address() {
  Fixture f;
  std::vector<Block*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(f.allocate(4 * kMiB));
  const std::byte* lowest = blocks[1]->address;
  for (const int i : {5, 1, 3}) f.free(blocks[i]);
  EXPECT(f.allocate(4 * kMiB)->address == lowest);
}

void provisional_allocations_raise_peaks_only_when_counted() {
  Fixture f;
  MemoryRequest request = Fixture::request(4 * kMiB);
  request.provisional = true;
  Block* temporary = f.heap.allocate(request).block;
  f.heap.allocate(request);
  f.free(temporary);
  EXPECT(f.heap.stats().allocated_bytes[0].peak == 0);
  f.heap.raise_peaks();
  EXPECT(f.heap.stats().allocated_bytes[0].peak == 4 * kMiB);
}

struct Case {
  const char* name;
  void (*run)();
};
#define CASE(function) {#function, &function}
constexpr Case kCases[] = {
    CASE(block_waits_for_every_stream_that_used_it),
    CASE(own_stream_needs_no_event),
    CASE(waiting_block_is_active_but_not_allocated),
    CASE(releasing_the_cache_waits_for_events),
    CASE(pool_released_while_a_block_waits_goes_after_the_event),
    CASE(failure_says_which_memory_ran_out),
    CASE(best_fit_takes_the_lowest_address),
    CASE(provisional_allocations_raise_peaks_only_when_counted),
};

}  // namespace
}  // namespace torch_trainium

int main(int argc, char** argv) {
  for (const auto& test : torch_trainium::kCases) {
    if (argc == 1) {
      std::puts(test.name);
    } else if (std::strcmp(test.name, argv[1]) == 0) {
      test.run();
      return 0;
    }
  }
  return argc == 1 ? 0 : 2;
}
