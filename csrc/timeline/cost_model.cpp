#include "timeline/cost_model.h"

#include <stdexcept>

#include "timeline/cost_work.h"
#include "timeline/loaded_programs.h"

namespace torch_trainium::timeline {

Formula formula_of(CostClass cost_class) {
  switch (cost_class) {
    case CostClass::kFree:
      return no_work;
    case CostClass::kFill:
      return fill_work;
    case CostClass::kCopy:
      return copy_work;
    case CostClass::kPointwise:
      return pointwise_work;
    case CostClass::kActivation:
      return activation_work;
    case CostClass::kReduction:
      return reduction_work;
    case CostClass::kExtremum:
      return extremum_work;
    case CostClass::kScan:
      return scan_work;
    case CostClass::kSoftmax:
      return softmax_work;
    case CostClass::kNormalization:
      return normalization_work;
    case CostClass::kNormalizationBackward:
      return normalization_backward_work;
    case CostClass::kMatmul:
      return matmul_work;
    case CostClass::kConvolution:
      return convolution_work;
    case CostClass::kConvolutionBackward:
      return convolution_backward_work;
    case CostClass::kAttention:
      return attention_work;
    case CostClass::kAttentionBackward:
      return attention_backward_work;
    case CostClass::kEmbedding:
    case CostClass::kRowGather:
      return row_gather_work;
    case CostClass::kEmbeddingBackward:
      return embedding_backward_work;
    case CostClass::kElementGather:
      return element_gather_work;
    case CostClass::kScatter:
      return scatter_work;
    case CostClass::kSort:
      return sort_work;
    case CostClass::kTopK:
      return topk_work;
    case CostClass::kPooling:
      return pooling_work;
    case CostClass::kResample:
      return resample_work;
    case CostClass::kRandom:
      return random_work;
    case CostClass::kOptimizer:
      return optimizer_work;
    case CostClass::kLoss:
      return loss_work;
    case CostClass::kRecurrent:
      return recurrent_work;
    case CostClass::kFourier:
      return fourier_work;
    case CostClass::kCpuFallback:
      return cpu_fallback_work;
    case CostClass::kHostRead:
    case CostClass::kTransfer:
      return transfer_work;
    case CostClass::kCollective:
      return local_collective_work;
  }
  return no_work;
}

namespace {

// Moves data over the host link rather than run a program on the core.
bool is_transfer(CostClass cost_class) {
  return cost_class == CostClass::kTransfer || cost_class == CostClass::kHostRead;
}

// No engine computes 64-bit floats or complex numbers; moving their bytes needs none.
bool falls_back(const OperatorCall& call) {
  if (call.cost_class == CostClass::kCpuFallback) return true;
  if (call.cost_class == CostClass::kCopy || call.cost_class == CostClass::kFill) return false;
  for (int i = 0; i < call.operand_count; ++i) {
    const Element element = call.operands[i].element;
    if (element == Element::kFloat64 || element == Element::kComplex) return true;
  }
  return false;
}

}  // namespace

CostModel::CostModel(const Constants& constants) : constants_(constants) {}

Cost CostModel::eager(const OperatorCall& call) const {
  const Constants& c = constants_;
  if (call.cost_class == CostClass::kFree) return {};
  Work work;
  const bool is_fallback = !is_transfer(call.cost_class) && falls_back(call);
  (is_fallback ? cpu_fallback_work : formula_of(call.cost_class))(c, call, work);
  if (is_fallback || is_transfer(call.cost_class)) {
    Cost cost = cost_of(work, work.latency_ns, 0);
    cost.bound = Bound::kHost;
    return cost;
  }
  double bytes = static_cast<double>(call.result_bytes);
  for (int i = 0; i < call.operand_count; ++i) {
    bytes += read_bytes(call, i) + written_bytes(call, i);
    work.on(Engine::kDma) += gather_strides_ns(c, call, call.operands[i]);
  }
  work.on(Engine::kDma) += bytes / stream_gbps(c, c.hbm_efficiency);
  work.on(Engine::kTensor) += eager_layout_ns(c, call);
  work.latency_ns += warmup_ns(c, work.on(Engine::kTensor));
  if (work.on(Engine::kScalar) > 0) work.latency_ns += c.scalar_table_load_ns;
  // The first read and the last write hide behind nothing.
  work.latency_ns += c.eager_program_ns + 2 * c.dma_startup_ns;
  return cost_of(work, work.latency_ns + combined_ns(work, c.eager_exposed_fraction), bytes);
}

int64_t CostModel::eager_run(const ProgramNode* nodes, int count, const Profile& profile) const {
  int64_t host_ps = 0;
  int64_t device_ps = 0;
  LoadedPrograms programs;
  for (int i = 0; i < count; ++i) {
    const ProgramNode& node = nodes[i];
    if (node.call.cost_class == CostClass::kFree) continue;
    const Cost cost = node.call.cost_class == CostClass::kCollective
                          ? collective(node.collective, node.call.result_bytes, node.group)
                          : eager(node.call);
    host_ps += profile.eager_issue_ps;
    device_ps = std::max(host_ps + profile.eager_launch_ps, device_ps) + cost.device_ps;
    if (node.call.cost_class != CostClass::kCollective && cost.bound != Bound::kHost) {
      const auto operator_id = static_cast<uint32_t>(node.call.cost_class);
      device_ps += programs.switch_to(program_of(operator_id, node.call), profile);
    }
    // The host does this itself, so it waits.
    if (cost.bound == Bound::kHost) host_ps = device_ps;
  }
  return std::max(host_ps, device_ps);
}

double CostModel::instruction_ns(Engine engine, double columns, double cycles) const {
  const Constants& c = constants_;
  const double ghz[] = {c.tensor_ghz, c.vector_ghz, c.scalar_ghz, c.gpsimd_ghz};
  const int index = static_cast<int>(engine);
  if (index >= 4) throw std::invalid_argument("only a compute engine has instructions");
  return c.instruction_ns + columns * cycles / ghz[index];
}

double CostModel::descriptor_ns(double bytes, bool is_software) const {
  const Constants& c = constants_;
  const double transfer_ns = c.dma_descriptor_ns + bytes / c.dma_engine_gbps;
  // Software makes the next descriptor while the engine works on this one.
  return is_software ? std::max(transfer_ns, c.dma_software_descriptor_ns) : transfer_ns;
}

Cost CostModel::transfer(int64_t bytes, Direction, int ranks) const {
  const Constants& c = constants_;
  const double gbps = std::min(c.host_link_gbps, c.host_shared_gbps / std::max(1, ranks));
  const double ns = c.host_transfer_ns + static_cast<double>(bytes) / gbps;
  Cost cost = cost_of({}, ns, static_cast<double>(bytes));
  cost.bound = Bound::kHost;
  return cost;
}

Cost CostModel::collective(Collective kind, int64_t bytes, const ReplicaGroup& group) const {
  Work work;
  work.on(Engine::kCollective) = collective_ns(constants_, kind, static_cast<double>(bytes), group);
  return cost_of(work, work.on(Engine::kCollective), 2 * static_cast<double>(bytes));
}

}  // namespace torch_trainium::timeline
