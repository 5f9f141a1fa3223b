// Blocks of a DeviceHeap that wait for streams which used them.
#include <algorithm>
#include <iterator>

#include "core/device_heap.h"

namespace torch_trainium {

void DeviceHeap::record_stream(Block* block, c10::Stream stream) {
  const std::lock_guard lock(lock_);
  if (stream.device_index() == device_ && stream.id() == block->pool->arena().stream) {
    return;  // the stream itself orders later uses of the block
  }
  if (block->extras == nullptr) {
    block->extras = new BlockExtras;
  }
  auto& streams = block->extras->streams;
  if (std::ranges::find(streams, stream) == streams.end()) {
    streams.push_back(stream);
  }
}

void DeviceHeap::defer_free(Block* block) {
  block->state = BlockState::kAwaitingEvents;
  for (const c10::Stream& stream : block->extras->streams) {
    void* event = runtime_.create_event(stream.device_index());
    runtime_.record_event(event, stream.device_index(), stream.id());
    pending_[{stream.device_index(), stream.id()}].push_back({event, block});
    ++block->pending_events;
  }
  block->extras->streams.clear();
}

void DeviceHeap::finish_event(const PendingEvent& pending) {
  runtime_.destroy_event(pending.event);
  if (--pending.block->pending_events == 0) {
    complete_free(pending.block, nullptr);
  }
}

void DeviceHeap::finish_ready_events() {
  for (auto it = pending_.begin(); it != pending_.end();) {
    auto& events = it->second;
    // A stream reaches its events in order.
    while (!events.empty() && runtime_.query_event(events.front().event)) {
      finish_event(events.front());
      events.pop_front();
    }
    it = events.empty() ? pending_.erase(it) : std::next(it);
  }
}

void DeviceHeap::finish_all_events() {
  ++rare_.num_sync_all_streams;
  for (const auto& [stream, events] : pending_) {
    for (const PendingEvent& pending : events) {
      runtime_.synchronize_event(pending.event);
      finish_event(pending);
    }
  }
  pending_.clear();
}

}  // namespace torch_trainium
