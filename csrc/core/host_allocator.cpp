#include "core/host_allocator.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "core/device.h"

namespace torch_trainium {
namespace {

class PinnedRanges {
 public:
  void insert(void* address, size_t bytes) {
    const bool locked = mlock(address, bytes) == 0;
    const std::unique_lock lock(mutex_);
    ranges_[static_cast<std::byte*>(address)] = {bytes, locked};
    locked_bytes_ += locked ? bytes : 0;
  }

  void erase(void* address) {
    const std::unique_lock lock(mutex_);
    const auto range = ranges_.find(static_cast<std::byte*>(address));
    locked_bytes_ -= range->second.locked ? range->second.bytes : 0;
    ranges_.erase(range);
  }

  bool contains(const void* address) const {
    const std::shared_lock lock(mutex_);
    const auto* byte = static_cast<const std::byte*>(address);
    auto above = ranges_.upper_bound(const_cast<std::byte*>(byte));
    if (above == ranges_.begin()) {
      return false;
    }
    const auto& [start, range] = *std::prev(above);
    return byte < start + range.bytes;
  }

  size_t locked_bytes() const { return locked_bytes_; }

 private:
  struct Range {
    size_t bytes;
    bool locked;
  };
  mutable std::shared_mutex mutex_;
  std::map<std::byte*, Range> ranges_;
  std::atomic<size_t> locked_bytes_{0};
};

// Leaked on purpose, like the allocator: tensors may die after static destructors ran.
PinnedRanges& pinned_ranges() {
  static auto* ranges = new PinnedRanges;
  return *ranges;
}

class StreamEvent {
 public:
  explicit StreamEvent(c10::Stream stream)
      : event_(runtime_or_raise().create_event(stream.device_index())) {
    runtime_or_raise().record_event(event_, stream.device_index(), stream.id());
  }
  ~StreamEvent() {
    if (event_ != nullptr) {
      runtime_or_raise().destroy_event(event_);
    }
  }
  StreamEvent(StreamEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  StreamEvent& operator=(StreamEvent&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }

  bool query() { return runtime_or_raise().query_event(event_); }

 private:
  void* event_;
};

// Adds the time it lives, in microseconds.
class Timer {
 public:
  Timer(at::DurationStat& stat, std::mutex& mutex) : stat_(stat), mutex_(mutex) {}
  ~Timer() {
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    const std::lock_guard lock(mutex_);
    stat_.increase(std::chrono::duration_cast<std::chrono::microseconds>(elapsed).count());
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  at::DurationStat& stat_;
  std::mutex& mutex_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

using PinnedBlock = at::HostBlock<c10::Stream>;

class PinnedAllocatorImpl final : public at::CachingHostAllocatorImpl<c10::Stream, StreamEvent> {
 public:
  std::pair<void*, void*> allocate(size_t size) override {
    runtime_or_raise();
    return CachingHostAllocatorImpl::allocate(size);
  }

  void free(void* context) override {
    // A forked child has its own copy of the memory, and locks in any state.
    if (!runtime::is_in_bad_fork()) {
      CachingHostAllocatorImpl::free(context);
    }
  }

  void copy_data(void* dest, const void* src, size_t count) const override {
    std::memcpy(dest, src, count);
  }

 private:
  void allocate_host_memory(size_t size, void** ptr) override {
    const Timer timer(stats_.host_alloc_time, stats_.timing_mutex_);
    void* address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK_WITH(OutOfMemoryError, address != MAP_FAILED, "Cannot allocate ",
                     c10::CachingAllocator::format_size(size),
                     " of pinned host memory: ", std::strerror(errno));
    pinned_ranges().insert(address, size);
    *ptr = address;
  }

  void free_block(PinnedBlock* block) override {
    const Timer timer(stats_.host_free_time, stats_.timing_mutex_);
    pinned_ranges().erase(block->ptr_);
    munmap(block->ptr_, block->size_);
  }

  void record_stream(std::optional<std::vector<StreamEvent>>& events, c10::Stream stream) override {
    events->emplace_back(stream);
  }

  bool query_event(StreamEvent& event) override { return event.query(); }

  c10::Stream get_current_stream() const override { return current_stream(current_device()); }

  bool stream_is_capturing(c10::Stream) const override { return false; }
};

void free_pinned(void* context);

using PinnedAllocator = at::CachingHostAllocatorInterface<PinnedAllocatorImpl, free_pinned>;

PinnedAllocator& allocator() {
  static auto* instance = new PinnedAllocator;
  return *instance;
}

void free_pinned(void* context) { allocator().free(context); }

REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, &allocator())

}  // namespace

bool is_pinned_host_pointer(const void* ptr) { return pinned_ranges().contains(ptr); }

at::HostAllocator* pinned_host_allocator() { return &allocator(); }

size_t locked_host_bytes() { return pinned_ranges().locked_bytes(); }

}  // namespace torch_trainium
