// HBM traffic, DMA and host transfers.
#include "timeline/cost_work.h"

namespace torch_trainium::timeline {
namespace {

bool reads_rows_of_a_table(CostClass cost_class) {
  return cost_class == CostClass::kEmbedding || cost_class == CostClass::kRowGather ||
         cost_class == CostClass::kElementGather;
}

// Whether what an operand that the call writes held before does not matter.
bool overwrites(CostClass cost_class) {
  return cost_class == CostClass::kFill || cost_class == CostClass::kCopy ||
         cost_class == CostClass::kRandom || cost_class == CostClass::kTransfer;
}

// A scatter reads and writes of its target as much as it has sources for, which may coincide.
double scattered_bytes(const OperatorCall& call) {
  double sources = 0;
  for (int i = 0; i < call.operand_count; ++i) {
    const Operand& x = call.operands[i];
    if (!x.is_written && x.element != Element::kInt64) sources += static_cast<double>(x.bytes());
  }
  return sources;
}

}  // namespace

double read_bytes(const OperatorCall& call, int index) {
  const Operand& operand = call.operands[index];
  const double bytes = static_cast<double>(operand.bytes());
  if (operand.is_written) {
    if (overwrites(call.cost_class)) return 0;
    return call.cost_class == CostClass::kScatter ? scattered_bytes(call) : bytes;
  }
  const bool is_table = &operand == input(call, 0) && reads_rows_of_a_table(call.cost_class);
  return is_table ? std::min(bytes, result_bytes(call)) : bytes;
}

double written_bytes(const OperatorCall& call, int index) {
  const Operand& operand = call.operands[index];
  if (!operand.is_written) return 0;
  return call.cost_class == CostClass::kScatter ? scattered_bytes(call)
                                                : static_cast<double>(operand.bytes());
}

double stream_gbps(const Constants& c, double efficiency) {
  const double engines = c.dma_engines * c.dma_engine_gbps;
  return c.physical_cores * std::min(c.hbm_gbps * efficiency, engines);
}

double descriptors_ns(const Constants& c, double bytes, double piece_bytes) {
  const double descriptors = std::ceil(bytes / std::max(piece_bytes, 1.0));
  const double one_queue = descriptors * c.dma_descriptor_ns + bytes / c.dma_engine_gbps;
  return one_queue / (c.dma_engines * c.physical_cores);
}

double gather_strides_ns(const Constants& c, const OperatorCall& call, const Operand& operand) {
  if (operand.is_dense) {
    const bool is_turned = operand.is_permuted && call.cost_class == CostClass::kCopy;
    const double streamed_ns =
        static_cast<double>(operand.bytes()) / stream_gbps(c, c.hbm_efficiency);
    return is_turned ? streamed_ns * (1 / c.dma_transpose_efficiency - 1) : 0;
  }
  // The strides are not known; the innermost dimension is what most windows leave whole.
  return descriptors_ns(c, 2 * static_cast<double>(operand.bytes()),
                        innermost(operand) * operand.element_bytes);
}

void transfer_work(const Constants& c, const OperatorCall& call, Work& work) {
  double bytes = 0;
  for (int i = 0; i < call.operand_count; ++i) {
    bytes = std::max(bytes, static_cast<double>(call.operands[i].bytes()));
  }
  bytes = std::max(bytes, static_cast<double>(call.result_bytes));
  work.latency_ns += c.host_transfer_ns + bytes / c.host_link_gbps;
}

// Inputs to the host, a pass over them there, results back.
void cpu_fallback_work(const Constants& c, const OperatorCall& call, Work& work) {
  double down = 0;
  for (int i = 0; i < call.operand_count; ++i) {
    if (!call.operands[i].is_on_host) down += static_cast<double>(call.operands[i].bytes());
  }
  const double up = result_bytes(call);
  work.latency_ns +=
      2 * c.host_transfer_ns + (down + up) / c.host_link_gbps + (down + up) / c.host_memory_gbps;
}

// The group is not among the operands; CostModel::collective knows it. What remains is the
// core's own copy of its part.
void local_collective_work(const Constants&, const OperatorCall&, Work&) {}

}  // namespace torch_trainium::timeline
