#include "core/allocation_trace.h"

#include <algorithm>

namespace torch_trainium {
namespace {

std::atomic<CreateContextFn> gather_function{nullptr};
std::atomic<RecordContext> gather_level{RecordContext::NEVER};

c10::ApproximateClockToUnixTimeConverter& trace_clock() {
  static auto* clock = new c10::ApproximateClockToUnixTimeConverter;
  return *clock;
}

}  // namespace

void start_trace_clock() { trace_clock(); }

void convert_to_unix_time(std::vector<TraceEntry>& entries) {
  if (entries.empty()) {
    return;
  }
  const auto convert = trace_clock().makeConverter();
  for (TraceEntry& entry : entries) {
    entry.time_.t_ = convert(entry.time_.approx_t_);
  }
}

std::shared_ptr<c10::GatheredContext> gather_context(RecordContext level) {
  if (!is_recording() || gather_level.load() < level) {
    return nullptr;
  }
  const CreateContextFn gather = gather_function.load();
  return gather ? gather() : nullptr;
}

void set_gathering(const TraceOptions& options) {
  gather_function = options.enabled ? options.gather : nullptr;
  gather_level = options.enabled ? options.record : RecordContext::NEVER;
  recording = options.enabled;
}

void AllocationTrace::configure(const TraceOptions& options, bool clear) {
  std::vector<TraceEntry> kept;
  if (options.enabled && !clear) {
    kept = entries();
  }
  options_ = options;
  options_.max_entries = std::max<size_t>(1, options.max_entries);
  if (kept.size() > options_.max_entries) {
    kept.erase(kept.begin(), kept.end() - static_cast<ptrdiff_t>(options_.max_entries));
  }
  ring_ = std::move(kept);
  oldest_ = 0;
}

void AllocationTrace::add(TraceEntry entry) {
  if (!options_.enabled || std::ranges::count(options_.skipped_actions, entry.action_) > 0) {
    return;
  }
  if (options_.record < RecordContext::ALLOC) {
    entry.context_ = nullptr;
  }
  if (ring_.size() < options_.max_entries) {
    ring_.push_back(std::move(entry));
    return;
  }
  ring_[oldest_] = std::move(entry);
  oldest_ = (oldest_ + 1) % ring_.size();
}

std::vector<TraceEntry> AllocationTrace::entries() const {
  std::vector<TraceEntry> ordered(ring_.begin() + static_cast<ptrdiff_t>(oldest_), ring_.end());
  ordered.insert(ordered.end(), ring_.begin(), ring_.begin() + static_cast<ptrdiff_t>(oldest_));
  return ordered;
}

}  // namespace torch_trainium
