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

// How much of an operator's engine time may run beside that of others. A product with one block
// of rows uses each weight once, as it arrives: the stream hides the array. With more blocks the
// compiler loads the weights of a product before it, and little of the two overlaps.
double hidden_fraction(const Constants& c, const ProgramNode& node, double row_blocks) {
  const double exposed = node.is_fused ? c.kernel_exposed_fraction : c.graph_exposed_fraction;
  return 1 - exposed * (1 - 1 / row_blocks);
}

// Addresses known only when the indices are: no prefetch, and descriptors made by software.
bool is_row_gather(CostClass cost_class) {
  return cost_class == CostClass::kEmbedding || cost_class == CostClass::kRowGather;
}

double row_blocks(const Constants& c, const OperatorCall& call) {
  double rows = 1;
  for (int i = 0; i < call.operand_count; ++i) {
    const Operand& x = call.operands[i];
    if (x.rank > 0) rows = std::max(rows, static_cast<double>(x.elements) / innermost(x));
  }
  if (call.cost_class == CostClass::kMatmul) rows = product_of(call).rows;
  return std::max(1.0, rows / c.lanes);
}

}  // namespace

Cost CostModel::program(const ProgramNode* nodes, int count) const {
  const Constants& c = constants_;
  const std::vector<bool> resident = resident_results(c, nodes, count);
  const double gbps = stream_gbps(c, c.stream_efficiency);
  Work total;
  Work hidden;
  double bytes = 0;
  for (int i = 0; i < count; ++i) {
    const OperatorCall& call = nodes[i].call;
    if (call.cost_class == CostClass::kFree) continue;
    if (call.cost_class == CostClass::kCollective) {
      total.on(Engine::kCollective) += collective_ns(
          c, nodes[i].collective, static_cast<double>(call.result_bytes), nodes[i].group);
      continue;
    }
    Work work;
    formula_of(call.cost_class)(c, call, work);
    double moved = resident[i] ? 0 : static_cast<double>(call.result_bytes);
    for (int k = 0; k < call.operand_count; ++k) {
      const int32_t producer = nodes[i].producers[k];
      if (producer != kGraphInput && resident[producer]) continue;
      moved += read_bytes(call, k) + written_bytes(call, k);
    }
    const double streamed_ns = moved / gbps;
    work.on(Engine::kDma) +=
        is_row_gather(call.cost_class)
            ? std::max(streamed_ns, descriptors_ns(c, moved, c.gather_piece_bytes))
            : streamed_ns;
    bytes += moved;
    const double fraction = hidden_fraction(c, nodes[i], row_blocks(c, call));
    for (int e = 0; e < kEngines; ++e) {
      total.engine_ns[e] += work.engine_ns[e];
      hidden.engine_ns[e] += fraction * work.engine_ns[e];
    }
    total.flops += work.flops;
    total.latency_ns += work.latency_ns +
                        (nodes[i].is_fused ? c.kernel_operator_latency_ns : c.operator_latency_ns);
  }
  total.latency_ns += warmup_ns(c, total.on(Engine::kTensor));
  double device_ns = c.program_start_ns + total.latency_ns;
  double longest_hidden = 0;
  for (int e = 0; e < kEngines; ++e) {
    device_ns += total.engine_ns[e] - hidden.engine_ns[e];
    longest_hidden = std::max(longest_hidden, hidden.engine_ns[e]);
  }
  return cost_of(total, device_ns + longest_hidden, bytes);
}

}  // namespace torch_trainium::timeline
