// How long operators, compiled graphs, copies and collectives take on one kind of core.
#pragma once

#include <cstdint>

#include "timeline/constants.h"
#include "timeline/operator_call.h"
#include "timeline/profile.h"

namespace torch_trainium::timeline {

enum class Engine : uint8_t { kTensor, kVector, kScalar, kGpSimd, kDma, kCollective };
inline constexpr int kEngines = 6;

enum class Bound : uint8_t {
  kLaunch,
  kTensor,
  kVector,
  kScalar,
  kGpSimd,
  kDma,  // HBM too
  kHost,
  kCollective,
};

struct Cost {
  int64_t device_ps = 0;  // how long the program occupies its core, launch not included
  int64_t engine_ps[kEngines] = {};
  int64_t flops = 0;      // a multiply-add is two
  int64_t hbm_bytes = 0;  // read and written
  Bound bound = Bound::kLaunch;
};

enum class Direction : uint8_t { kHostToDevice, kDeviceToHost };

enum class Collective : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kSendReceive,
};

// How many ranks take part, and how they lie: `ranks` in all, evenly over `chips`, which lie
// evenly in `nodes`.
struct ReplicaGroup {
  int32_t ranks = 1;
  int32_t chips = 1;
  int32_t nodes = 1;
};

inline constexpr int32_t kGraphInput = -1;

// One operator of a compiled graph, in an order in which it can run.
struct ProgramNode {
  OperatorCall call;
  // For each operand the node whose result it is, or kGraphInput.
  const int32_t* producers;
  // The result is read after the graph ends.
  bool is_output = false;
  // Belongs to the hand-written kernel of the node before, which orders its engines itself.
  bool is_fused = false;
  // Where the operator is a collective (cost class kCollective).
  Collective collective = Collective::kAllReduce;
  ReplicaGroup group;
};

// One chip kind at one logical core size; immutable, so that threads may share it.
class CostModel {
 public:
  explicit CostModel(const Constants& constants);

  // The operator as a program of its own, inputs and results in HBM.
  Cost eager(const OperatorCall& call) const;
  // One compiled graph: engines overlap, and intermediates that fit stay in SBUF.
  Cost program(const ProgramNode* nodes, int count) const;
  // Picoseconds from the first issue to the end of the last node, each an eager program: the
  // host issues one after the other, the device runs them in order and changes programs.
  int64_t eager_run(const ProgramNode* nodes, int count, const Profile& profile) const;
  // While `ranks` of the host's cores copy at once.
  Cost transfer(int64_t bytes, Direction direction, int ranks = 1) const;
  // `bytes` is the size of the whole tensor: the result of an all-gather, the input of the others.
  Cost collective(Collective kind, int64_t bytes, const ReplicaGroup& group) const;

  // From issue to result of one instruction on `columns` elements a lane, at `cycles` each.
  double instruction_ns(Engine engine, double columns, double cycles) const;
  // One descriptor of `bytes` on one DMA engine, made by hardware or by software.
  double descriptor_ns(double bytes, bool is_software) const;

 private:
  Constants constants_;
};

}  // namespace torch_trainium::timeline
