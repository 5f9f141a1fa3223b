#include "core/stream_sanitizer.h"

#include <algorithm>
#include <utility>

#include "core/host_allocator.h"

namespace torch_trainium {
namespace {

using timeline::Access;

bool is_empty(const Access& access) {
  if (access.storage == nullptr || access.storage_bytes == 0) return true;
  for (int i = 0; i < access.rank; ++i) {
    if (access.sizes[i] == 0) return true;
  }
  return false;
}

TensorUse use_of(const Access& access, uint32_t operator_id, uint32_t line) {
  return {.operator_id = operator_id,
          .line = line,
          .is_written = access.is_written,
          .dtype = access.dtype,
          .sizes = {access.sizes, access.sizes + access.rank},
          .extent = extent_of(access)};
}

bool conflict(const TensorUse& a, const TensorUse& b) {
  return (a.is_written || b.is_written) && overlap(a.extent, b.extent);
}

StreamRace::Kind kind_of(PastUse::Owner owner) {
  switch (owner) {
    case PastUse::Owner::kTensor:
      break;
    case PastUse::Owner::kFreedTensor:
      return StreamRace::Kind::kReuseWithoutWait;
    case PastUse::Owner::kUnguardedFreedTensor:
      return StreamRace::Kind::kMissingRecordStream;
  }
  return StreamRace::Kind::kUseWithoutWait;
}

// Whether the device itself reads or writes the host's memory. Other operators take
// CPU tensors as numbers that the host reads, and pageable memory is copied aside
// before the call returns.
bool is_device_access(const runtime::Work& work, const Access& access) {
  return access.host_storage == nullptr ||
         (work.kind == runtime::WorkKind::kCopy &&
          (access.is_written || is_pinned_host_pointer(access.storage)));
}

}  // namespace

StreamSanitizer& StreamSanitizer::instance() {
  static auto* sanitizer = new StreamSanitizer;
  return *sanitizer;
}

void StreamSanitizer::start(LineSource current_line, RaceReport report) {
  {
    const std::lock_guard lock(mutex_);
    current_line_ = current_line;
    report_ = std::make_shared<const RaceReport>(std::move(report));
    state_ = {};
    running_ = true;
  }
  runtime::order_observer.store(this, std::memory_order_release);
  runtime::set_work_observer(runtime::Observer::kStreamSanitizer, this);
}

void StreamSanitizer::stop() {
  runtime::set_work_observer(runtime::Observer::kStreamSanitizer, nullptr);
  runtime::order_observer.store(nullptr, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  running_ = false;
  watches_host_ = false;
  report_.reset();
  state_ = {};
}

void StreamSanitizer::observe(const runtime::Work& work, const timeline::OperatorCall& /*call*/,
                              const runtime::WorkTimes& times) {
  thread_local std::vector<Access> accesses;
  accesses.clear();
  work.call->add_accesses(accesses);
  const uint32_t line = current_line_.load()();
  const bool is_awaited = times.placement.host_waited;
  std::vector<StreamRace> races;
  std::shared_ptr<const RaceReport> report;
  {
    const std::lock_guard lock(mutex_);
    if (!running_) return;
    report = report_;
    const size_t stream = state_.clocks.number_of({work.device, work.stream});
    const StreamClocks::Point now = state_.clocks.queue_work(stream);
    for (const Access& access : accesses) {
      if (!is_empty(access)) find_races(work, access, line, now, is_awaited, races);
    }
    if (is_awaited) {
      state_.clocks.host_passes(stream);
      host_has_waited();
    }
    watches_host_ = !state_.host_memory.empty();
  }
  for (const StreamRace& race : races) (*report)(race);
}

void StreamSanitizer::find_races(const runtime::Work& work, const Access& access, uint32_t line,
                                 StreamClocks::Point now, bool is_awaited,
                                 std::vector<StreamRace>& races) {
  const StreamClocks& clocks = state_.clocks;
  const bool by_device = is_device_access(work, access);
  MemoryHistory& history = access.host_storage ? state_.host_memory : state_.device_memory;
  // What the host awaits before it goes on leaves nothing behind to wait for.
  const bool leaves_trace = by_device && !(is_awaited && access.host_storage != nullptr);
  MemoryRegion* region = leaves_trace ? &history.region_of(access) : history.find(access);
  if (region == nullptr) return;
  TensorUse use = use_of(access, work.operator_id, line);
  for (const PastUse& past : region->uses) {
    if (!conflict(use, past.use)) continue;
    const bool is_ordered =
        by_device ? clocks.is_after(now.stream, past.point) : clocks.host_is_after(past.point);
    if (is_ordered) continue;
    races.push_back(
        {.kind = by_device ? kind_of(past.owner) : StreamRace::Kind::kEarlyHostAccess,
         .later = use,
         .later_stream = by_device ? std::optional(clocks.name_of(now.stream)) : std::nullopt,
         .earlier = past.use,
         .earlier_stream = clocks.name_of(past.point.stream)});
  }
  if (leaves_trace) region->add(clocks, {std::move(use), now});
}

void StreamSanitizer::host_uses(const Access& access, uint32_t operator_id) {
  if (is_empty(access)) return;
  std::vector<StreamRace> races;
  std::shared_ptr<const RaceReport> report;
  {
    const std::lock_guard lock(mutex_);
    report = report_;
    const MemoryRegion* region = state_.host_memory.find(access);
    if (region == nullptr) return;
    const TensorUse use = use_of(access, operator_id, 0);
    for (const PastUse& past : region->uses) {
      if (state_.clocks.host_is_after(past.point) || !conflict(use, past.use)) continue;
      races.push_back({.kind = StreamRace::Kind::kEarlyHostAccess,
                       .later = use,
                       .later_stream = std::nullopt,
                       .earlier = past.use,
                       .earlier_stream = state_.clocks.name_of(past.point.stream)});
    }
  }
  for (StreamRace& race : races) {
    race.later.line = current_line_.load()();
    (*report)(race);
  }
}

void StreamSanitizer::host_has_waited() {
  state_.host_memory.erase_past(state_.clocks);
  watches_host_ = !state_.host_memory.empty();
}

void StreamSanitizer::event_recorded(const void* event, runtime::StreamName stream) noexcept {
  const std::lock_guard lock(mutex_);
  state_.clocks.record(event, state_.clocks.number_of(stream));
}

void StreamSanitizer::event_destroyed(const void* event) noexcept {
  const std::lock_guard lock(mutex_);
  state_.clocks.forget(event);
}

void StreamSanitizer::stream_waits(runtime::StreamName stream, const void* event) noexcept {
  const std::lock_guard lock(mutex_);
  state_.clocks.stream_waits(state_.clocks.number_of(stream), event);
}

void StreamSanitizer::host_passed_event(const void* event) noexcept {
  const std::lock_guard lock(mutex_);
  state_.clocks.host_passes(event);
  host_has_waited();
}

void StreamSanitizer::host_passed_stream(runtime::StreamName stream) noexcept {
  const std::lock_guard lock(mutex_);
  state_.clocks.host_passes(state_.clocks.number_of(stream));
  host_has_waited();
}

void StreamSanitizer::host_passed_device(int device) noexcept {
  const std::lock_guard lock(mutex_);
  state_.clocks.host_passes_device(device);
  host_has_waited();
}

void StreamSanitizer::memory_recorded(const std::byte* begin, size_t bytes,
                                      runtime::StreamName stream) noexcept {
  const std::lock_guard lock(mutex_);
  const Access block = timeline::access_to_bytes(begin, bytes, /*is_written=*/false);
  auto& recorded = state_.device_memory.region_of(block).recorded_streams;
  const size_t number = state_.clocks.number_of(stream);
  if (std::find(recorded.begin(), recorded.end(), number) == recorded.end()) {
    recorded.push_back(number);
  }
}

void StreamSanitizer::memory_freed(const std::byte* begin, size_t bytes,
                                   runtime::StreamName owner) noexcept {
  const std::lock_guard lock(mutex_);
  state_.device_memory.free(state_.clocks, begin, bytes, state_.clocks.number_of(owner));
}

void StreamSanitizer::memory_released(const std::byte* begin, size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  state_.device_memory.erase(begin, begin + bytes);
}

}  // namespace torch_trainium
