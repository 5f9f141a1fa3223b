#include "core/stream_clocks.h"

#include <algorithm>

namespace torch_trainium {

void StreamClocks::join(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (size_t stream = 0; stream < other.size(); ++stream) {
    clock[stream] = std::max(clock[stream], other[stream]);
  }
}

size_t StreamClocks::number_of(runtime::StreamName stream) {
  const auto known = std::find(names_.begin(), names_.end(), stream);
  const auto number = static_cast<size_t>(known - names_.begin());
  if (known == names_.end()) {
    names_.push_back(stream);
    streams_.emplace_back(names_.size());
  }
  return number;
}

StreamClocks::Point StreamClocks::queue_work(size_t stream) {
  Clock& clock = streams_[stream];
  join(clock, host_);
  return {stream, ++clock[stream]};
}

bool StreamClocks::is_after(size_t stream, Point point) const {
  return position_in(streams_[stream], point.stream) >= point.position;
}

void StreamClocks::record(const void* event, size_t stream) {
  Clock& clock = events_[event];
  clock = streams_[stream];
  join(clock, host_);
}

void StreamClocks::stream_waits(size_t stream, const void* event) {
  const auto recorded = events_.find(event);
  if (recorded != events_.end()) join(streams_[stream], recorded->second);
}

void StreamClocks::host_passes(const void* event) {
  const auto recorded = events_.find(event);
  if (recorded != events_.end()) join(host_, recorded->second);
}

void StreamClocks::host_passes(size_t stream) { join(host_, streams_[stream]); }

void StreamClocks::host_passes_device(int device) {
  for (size_t stream = 0; stream < names_.size(); ++stream) {
    if (names_[stream].device == device) host_passes(stream);
  }
}

}  // namespace torch_trainium
