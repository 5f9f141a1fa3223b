// The virtual timeline: when each unit of device work would start and end.
//
// A unit starts once the host has asked for it, its stream is free, the events it
// waits for have passed, and the queue it runs on is free: one queue of programs
// and one each for copies in, copies out and collectives on every core, so that
// several streams do not make several cores.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "timeline/cost_model.h"
#include "timeline/host_clock.h"
#include "timeline/loaded_programs.h"
#include "timeline/operator_call.h"
#include "timeline/profile.h"

namespace torch_trainium::timeline {

enum class Queue : uint8_t { kCompute, kCopyIn, kCopyOut, kCollective };
inline constexpr int kQueues = 4;

// Where one unit of work came to lie.
struct Placement {
  Queue queue;
  int64_t issued_ps;  // when the host had asked for it
  int64_t start_ps;
  int64_t end_ps;
  Cost cost;
  bool host_waited;  // until it was done
};

// Everything charged to one operator on one device since the last reset.
struct OperatorTotal {
  uint64_t calls = 0;
  uint64_t launch_bound_calls = 0;  // overheads took longer than the work
  int64_t device_ps = 0;
  int64_t idle_ps = 0;  // of the core, until the host had asked
  int64_t engine_ps[kEngines] = {};
  int64_t flops = 0;
  int64_t hbm_bytes = 0;
};

struct Request {
  int device;
  int64_t stream;
  uint32_t operator_id;
  // Whether the host goes on only when the work is done.
  bool host_waits;
};

class Timeline {
 public:
  Timeline(int device_count, int devices_per_chip, const Constants& constants,
           const Profile& profile);

  // Lays a call on the timeline and advances the host's clock.
  Placement charge(const Request& request, const OperatorCall& call, HostClock& host);

  // Keeps a stream and its core busy, as a program that does nothing for so long.
  void occupy(int device, int64_t stream, int64_t duration_ps, HostClock& host);

  // When what is queued on a stream by now is done; the host's time if nothing is.
  int64_t record_event(int device, int64_t stream, HostClock& host);
  void wait_event(int device, int64_t stream, int64_t event_ps);
  // Whether the host finds `time_ps` passed, which it has where any thread waited for
  // it. Asking takes time, so polling ends.
  bool query(int64_t time_ps, HostClock& host) const;
  void synchronize(int64_t time_ps, HostClock& host);
  int64_t stream_end_ps(int device, int64_t stream) const;
  int64_t device_end_ps(int device) const;

  // By operator id; operators without calls are left out.
  std::unordered_map<uint32_t, OperatorTotal> totals(int device) const;
  void reset_totals();

  // Off only to measure what charging costs the host.
  void set_charging(bool enabled) { is_charging_.store(enabled, std::memory_order_relaxed); }
  bool is_charging() const { return is_charging_.load(std::memory_order_relaxed); }

  const Profile& profile() const { return profile_; }

 private:
  // Costs of late calls: programs repeat.
  struct KnownCost {
    uint64_t program = 0;
    uint64_t layout = 0;
    Cost cost;
  };
  static constexpr size_t kKnownCosts = 1024;

  struct Device {
    mutable std::mutex mutex;
    std::vector<KnownCost> known_costs = std::vector<KnownCost>(kKnownCosts);
    std::vector<int64_t> stream_end_ps;  // by stream id
    int64_t queue_end_ps[kQueues] = {};
    LoadedPrograms programs;
    std::vector<OperatorTotal> totals;  // by operator id
  };

  Cost cost_of(const OperatorCall& call, const Operand* on_host, const Operand* peer) const;

  Device& device(int index) { return *devices_[static_cast<size_t>(index)]; }
  const Device& device(int index) const { return *devices_[static_cast<size_t>(index)]; }

  const int devices_per_chip_;
  const CostModel costs_;
  const Profile profile_;
  std::atomic<bool> is_charging_{true};
  std::atomic<int64_t> synchronized_ps_{0};  // the latest time that a thread waited for
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace torch_trainium::timeline
