// A compiled graph: one launch, engines in parallel, intermediates in SBUF where they fit.
#include <vector>

#include "timeline/cost_work.h"

namespace torch_trainium::timeline {
namespace {

// How many operators on the compiler still fuses a reader.
constexpr int kFusedSpan = 8;

// Which results never reach HBM: those read only by the next operators, while they fit.
std::vector<bool> resident_results(const Constants& c, const ProgramNode* nodes, int count) {
  std::vector<int> last_use(count, -1);
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < nodes[i].call.operand_count; ++k) {
      const int32_t producer = nodes[i].producers[k];
      if (producer != kGraphInput) last_use[producer] = i;
    }
  }
  const double capacity = c.sbuf_bytes * c.physical_cores;
  std::vector<bool> resident(count, false);
  for (int i = 0; i < count; ++i) {
    const double bytes = static_cast<double>(nodes[i].call.result_bytes);
    // The next operators take a tile as soon as it is there, however large the tensor.
    const bool is_consumed_in_tiles = last_use[i] <= i + kFusedSpan;
    resident[i] = !nodes[i].is_output && (is_consumed_in_tiles || bytes * 4 <= capacity);
  }
  return resident;
}

}  // namespace

Cost CostModel::program(const ProgramNode* nodes, int count) const {
  const Constants& c = constants_;
  const std::vector<bool> resident = resident_results(c, nodes, count);
  Work total;
  double bytes = 0;
  for (int i = 0; i < count; ++i) {
    const OperatorCall& call = nodes[i].call;
    if (call.cost_class == CostClass::kFree) continue;
    if (call.cost_class == CostClass::kCollective) {
      total.on(Engine::kCollective) += collective_ns(
          c, nodes[i].collective, static_cast<double>(call.result_bytes), nodes[i].group);
      continue;
    }
    formula_of(call.cost_class)(c, call, total);
    for (int k = 0; k < call.operand_count; ++k) {
      const int32_t producer = nodes[i].producers[k];
      if (producer != kGraphInput && resident[producer]) continue;
      bytes += read_bytes(call, k) + written_bytes(call, k);
    }
    if (!resident[i]) bytes += static_cast<double>(call.result_bytes);
    total.latency_ns += c.operator_latency_ns;
  }
  const double serial = total.on(Engine::kCollective);
  total.on(Engine::kCollective) = 0;
  total.on(Engine::kDma) += bytes / stream_gbps(c, c.stream_efficiency);
  const double overlapped = combined_ns(total, c.graph_exposed_fraction);
  total.on(Engine::kCollective) = serial;
  return cost_of(total, overlapped + serial + total.latency_ns, bytes);
}

}  // namespace torch_trainium::timeline
