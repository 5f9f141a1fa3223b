// Collectives by size, algorithm and topology: steps times their latency plus traffic over
// bandwidth, level by level (cores of a chip, chips of a node, nodes).
//
// Algorithms and their ranges: AWS Neuron documentation, neuron-runtime/explore,
// intranode-collective-comm.rst and internode-collective-comm.rst.
#include "timeline/cost_work.h"

namespace torch_trainium::timeline {
namespace {

constexpr double kMeshBytes = 1 << 20;
constexpr double kRdhBytes = 56 << 20;

double log2_ceil(double n) {
  double steps = 0;
  for (double reached = 1; reached < n; reached *= 2) ++steps;
  return steps;
}

// Steps of an all-gather or a reduce-scatter among `n` peers. The latency of the cheaper
// algorithm for small tensors must not exceed that of the one for large ones.
double half_steps(double n, double bytes) {
  if (n <= 1) return 0;
  const double mesh = 2;
  const double rdh = std::max(mesh, log2_ceil(n) + 1);
  const double kangaring = std::max(rdh, n / 2);
  if (bytes < kMeshBytes) return mesh;
  return bytes < kRdhBytes ? rdh : kangaring;
}

struct Level {
  double peers;
  double gbps;
  double step_ns;
};

// All-gather or reduce-scatter of a tensor of `bytes` at one level.
double half_ns(const Level& level, double bytes) {
  if (level.peers <= 1) return 0;
  return half_steps(level.peers, bytes) * level.step_ns +
         bytes * (level.peers - 1) / level.peers / level.gbps;
}

// Every peer sends another part to every other.
double exchange_ns(const Level& level, double bytes) {
  if (level.peers <= 1) return 0;
  return 2 * level.step_ns + 2 * bytes * (level.peers - 1) / level.peers / level.gbps;
}

// One peer sends to one other; it is no nearer than the farthest level.
double send_ns(const Level& level, double bytes) {
  return level.peers <= 1 ? 0 : level.step_ns + bytes / level.gbps;
}

}  // namespace

double collective_ns(const Constants& c, Collective kind, double bytes, const ReplicaGroup& group) {
  if (group.ranks <= 1) return 0;
  const double chips = std::max(1, group.chips);
  const double nodes = std::max(1, group.nodes);
  const double local = std::max(1.0, group.ranks / chips);
  // Every pair of cores has a link of its own.
  const Level on_chip{local, c.link_gbps * std::max(1.0, local - 1), c.link_step_ns};
  // The ranks of a chip share its links, and those of a node its adapters.
  const Level in_node{chips / nodes, c.chip_link_gbps / local, c.chip_step_ns};
  const Level between{nodes, c.node_link_gbps, c.node_step_ns};
  const double node_bytes = bytes / local;
  const double far_bytes = node_bytes / std::max(1.0, chips / nodes);
  const double gather =
      half_ns(on_chip, bytes) + half_ns(in_node, node_bytes) + half_ns(between, far_bytes);
  const double start = bytes < kMeshBytes ? c.collective_start_ns : c.bulk_collective_start_ns;
  switch (kind) {
    case Collective::kAllReduce:
      return start + 2 * gather;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kBroadcast:
      return start + gather;
    case Collective::kAllToAll:
      return start + exchange_ns(on_chip, bytes) + exchange_ns(in_node, bytes) +
             exchange_ns(between, bytes);
    case Collective::kSendReceive:
      return start +
             std::max({send_ns(on_chip, bytes), send_ns(in_node, bytes), send_ns(between, bytes)});
  }
  return start;
}

}  // namespace torch_trainium::timeline
