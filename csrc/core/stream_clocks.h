// Which work is sure to run before which: vector clocks of streams, events and host.
//
// A clock says how far into each stream everything is done. Work queued on a stream
// comes after what the stream waited for and what the host had waited for when it
// asked for the work. The threads of a process share one clock, for what one of them
// tells another is not seen here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "runtime/order_observer.h"

namespace torch_trainium {

class StreamClocks {
 public:
  // The n-th unit of work of a stream.
  struct Point {
    size_t stream;
    uint64_t position;
  };

  // The number of a stream, the same as long as this lives.
  size_t number_of(runtime::StreamName stream);
  runtime::StreamName name_of(size_t stream) const { return names_[stream]; }

  Point queue_work(size_t stream);
  // Whether what is queued on `stream` by now runs after `point`.
  bool is_after(size_t stream, Point point) const;
  bool host_is_after(Point point) const {
    return position_in(host_, point.stream) >= point.position;
  }

  void record(const void* event, size_t stream);
  void forget(const void* event) { events_.erase(event); }
  void stream_waits(size_t stream, const void* event);
  void host_passes(const void* event);
  void host_passes(size_t stream);
  void host_passes_device(int device);

 private:
  using Clock = std::vector<uint64_t>;  // positions by stream; beyond the end 0

  static uint64_t position_in(const Clock& clock, size_t stream) {
    return stream < clock.size() ? clock[stream] : 0;
  }
  static void join(Clock& clock, const Clock& other);

  std::vector<runtime::StreamName> names_;
  std::vector<Clock> streams_;
  std::unordered_map<const void*, Clock> events_;
  Clock host_;
};

}  // namespace torch_trainium
