#include "timeline/timeline.h"

#include <algorithm>
#include <iterator>

#include "timeline/graph_record.h"

namespace torch_trainium::timeline {
namespace {

// The host's side of a copy, if it has one.
const Operand* host_side(const OperatorCall& call) {
  if (call.cost_class != CostClass::kCopy && call.cost_class != CostClass::kTransfer)
    return nullptr;
  for (int i = 0; i < call.operand_count; ++i) {
    if (call.operands[i].is_on_host) return &call.operands[i];
  }
  return nullptr;
}

// What a copy between devices has on another device than the first operand.
const Operand* peer_side(const OperatorCall& call) {
  if (call.cost_class != CostClass::kCopy) return nullptr;
  for (int i = 1; i < call.operand_count; ++i) {
    if (call.operands[i].device != call.operands[0].device) return &call.operands[i];
  }
  return nullptr;
}

Queue queue_of(const OperatorCall& call, const Operand* host_side, const Operand* peer_side) {
  if (peer_side != nullptr) return Queue::kCollective;
  if (host_side != nullptr) return host_side->is_written ? Queue::kCopyOut : Queue::kCopyIn;
  switch (call.cost_class) {
    case CostClass::kCollective:
      return Queue::kCollective;
    case CostClass::kHostRead:
      return Queue::kCopyOut;
    default:
      return Queue::kCompute;
  }
}

void add(OperatorTotal& total, const Cost& cost, int64_t idle_ps) {
  ++total.calls;
  total.launch_bound_calls += cost.bound == Bound::kLaunch ? 1 : 0;
  total.idle_ps += idle_ps;
  total.device_ps += cost.device_ps;
  for (int engine = 0; engine < kEngines; ++engine) {
    total.engine_ps[engine] += cost.engine_ps[engine];
  }
  total.flops += cost.flops;
  total.hbm_bytes += cost.hbm_bytes;
}

// Whether what comes before and around a program takes longer than its work.
bool is_launch_bound(const Cost& cost, int64_t idle_ps, int64_t issue_ps) {
  const int64_t busy_ps = *std::max_element(std::begin(cost.engine_ps), std::end(cost.engine_ps));
  return busy_ps < cost.device_ps - busy_ps || (idle_ps > 0 && busy_ps < issue_ps);
}

// What a cost depends on beside the program: layouts, devices, sizes of results, and whether there
// is one.
uint64_t layout_of(const OperatorCall& call) {
  uint64_t key = static_cast<uint64_t>(call.result_bytes) + 1;
  key = mixed(key, static_cast<uint64_t>(call.cost_class));
  for (int i = 0; i < call.operand_count; ++i) {
    const Operand& x = call.operands[i];
    const uint64_t flags = static_cast<uint64_t>(x.is_dense) | uint64_t{x.is_permuted} << 1 |
                           uint64_t{x.is_written} << 2 | uint64_t{x.element_bytes} << 8 |
                           static_cast<uint64_t>(static_cast<uint16_t>(x.device)) << 16;
    key = mixed(key, flags);
  }
  return key;
}

template <typename T>
T& at_index(std::vector<T>& values, size_t index) {
  if (index >= values.size()) values.resize(index + 1);
  return values[index];
}

}  // namespace

Timeline::Timeline(int device_count, int devices_per_chip, const Constants& constants,
                   const Profile& profile)
    : devices_per_chip_(devices_per_chip), costs_(constants), profile_(profile) {
  for (int i = 0; i < device_count; ++i) devices_.push_back(std::make_unique<Device>());
}

Cost Timeline::cost_of(const OperatorCall& call, const Operand* on_host,
                       const Operand* peer) const {
  if (call.graph != nullptr) return costs_.program(call.graph->nodes(), call.graph->count());
  if (on_host != nullptr) {
    return costs_.transfer(on_host->bytes(), on_host->is_written ? Direction::kDeviceToHost
                                                                 : Direction::kHostToDevice);
  }
  if (peer == nullptr) return costs_.eager(call);
  const bool is_on_chip =
      peer->device / devices_per_chip_ == call.operands[0].device / devices_per_chip_;
  return costs_.collective(Collective::kSendReceive, peer->bytes(),
                           {.ranks = 2, .chips = is_on_chip ? 1 : 2});
}

Placement Timeline::charge(const Request& request, const OperatorCall& call, HostClock& host) {
  const Operand* on_host = host_side(call);
  Placement placement;
  const Operand* peer = on_host == nullptr ? peer_side(call) : nullptr;
  placement.queue = queue_of(call, on_host, peer);
  const uint64_t program = program_of(request.operator_id, call);
  const uint64_t layout = layout_of(call);
  const bool is_graph = call.graph != nullptr;
  const int64_t issue_ps = is_graph ? profile_.compiled_issue_ps : profile_.eager_issue_ps;
  host.advance(issue_ps);
  placement.issued_ps = host.now_ps();
  const int64_t launched_ps =
      placement.issued_ps + (is_graph ? profile_.compiled_launch_ps : profile_.eager_launch_ps);

  Device& on = device(request.device);
  const std::lock_guard lock(on.mutex);
  int64_t& stream_end = at_index(on.stream_end_ps, static_cast<size_t>(request.stream));
  int64_t& queue_end = on.queue_end_ps[static_cast<size_t>(placement.queue)];
  KnownCost& known = on.known_costs[program % kKnownCosts];
  if (known.program != program || known.layout != layout) {
    known = {program, layout, cost_of(call, on_host, peer)};
  }
  placement.cost = known.cost;
  if (placement.queue == Queue::kCompute && placement.cost.bound != Bound::kHost) {
    const int64_t switch_ps = on.programs.switch_to(program, profile_);
    // The launch of a graph was measured with the change to it.
    if (!is_graph) placement.cost.device_ps += switch_ps;
  }
  const int64_t free_ps = std::max(stream_end, queue_end);
  placement.start_ps = std::max(launched_ps, free_ps);
  placement.end_ps = placement.start_ps + placement.cost.device_ps;
  const int64_t idle_ps = placement.start_ps - free_ps;
  if (placement.cost.bound != Bound::kHost && is_launch_bound(placement.cost, idle_ps, issue_ps)) {
    placement.cost.bound = Bound::kLaunch;
  }
  stream_end = queue_end = placement.end_ps;
  add(at_index(on.totals, request.operator_id), placement.cost, idle_ps);
  const bool runs_on_host = on_host == nullptr && placement.cost.bound == Bound::kHost;
  const bool is_read = call.cost_class == CostClass::kHostRead;
  placement.host_waited = request.host_waits || runs_on_host || is_read;
  if (placement.host_waited) {
    host.wait_until(placement.end_ps + (is_read ? profile_.host_read_ps : profile_.synchronize_ps));
  }
  return placement;
}

void Timeline::occupy(int device, int64_t stream, int64_t duration_ps, HostClock& host) {
  host.advance(profile_.eager_issue_ps);
  Device& on = this->device(device);
  const std::lock_guard lock(on.mutex);
  int64_t& stream_end = at_index(on.stream_end_ps, static_cast<size_t>(stream));
  int64_t& queue_end = on.queue_end_ps[static_cast<size_t>(Queue::kCompute)];
  const int64_t start_ps =
      std::max({host.now_ps() + profile_.eager_launch_ps, stream_end, queue_end});
  stream_end = queue_end = start_ps + duration_ps;
}

int64_t Timeline::record_event(int device, int64_t stream, HostClock& host) {
  return std::max(host.now_ps(), stream_end_ps(device, stream));
}

void Timeline::wait_event(int device, int64_t stream, int64_t event_ps) {
  Device& on = this->device(device);
  const std::lock_guard lock(on.mutex);
  int64_t& stream_end = at_index(on.stream_end_ps, static_cast<size_t>(stream));
  stream_end = std::max(stream_end, event_ps);
}

bool Timeline::query(int64_t time_ps, HostClock& host) const {
  host.advance(profile_.query_ps);
  return std::max(host.now_ps(), synchronized_ps_.load(std::memory_order_relaxed)) >= time_ps;
}

void Timeline::synchronize(int64_t time_ps, HostClock& host) {
  int64_t latest = synchronized_ps_.load(std::memory_order_relaxed);
  while (latest < time_ps && !synchronized_ps_.compare_exchange_weak(latest, time_ps)) {
  }
  host.wait_until(time_ps);
  host.advance(profile_.synchronize_ps);
}

int64_t Timeline::stream_end_ps(int device, int64_t stream) const {
  const Device& on = this->device(device);
  const std::lock_guard lock(on.mutex);
  const auto index = static_cast<size_t>(stream);
  return index < on.stream_end_ps.size() ? on.stream_end_ps[index] : 0;
}

int64_t Timeline::device_end_ps(int device) const {
  const Device& on = this->device(device);
  const std::lock_guard lock(on.mutex);
  int64_t end_ps = 0;
  for (const int64_t stream_end : on.stream_end_ps) end_ps = std::max(end_ps, stream_end);
  return end_ps;
}

std::unordered_map<uint32_t, OperatorTotal> Timeline::totals(int device) const {
  const Device& on = this->device(device);
  const std::lock_guard lock(on.mutex);
  std::unordered_map<uint32_t, OperatorTotal> called;
  for (uint32_t id = 0; id < on.totals.size(); ++id) {
    if (on.totals[id].calls > 0) called.emplace(id, on.totals[id]);
  }
  return called;
}

void Timeline::reset_totals() {
  for (const auto& device : devices_) {
    const std::lock_guard lock(device->mutex);
    device->totals.clear();
  }
}

}  // namespace torch_trainium::timeline
