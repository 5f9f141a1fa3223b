#include "timeline/loaded_programs.h"

#include "timeline/graph_record.h"

namespace torch_trainium::timeline {

uint64_t program_of(uint32_t operator_id, const OperatorCall& call) {
  uint64_t key = operator_id + 1;
  const auto mix = [&](uint64_t value) { key = mixed(key, value); };
  if (call.graph != nullptr) mix(call.graph->id());
  for (int i = 0; i < call.operand_count; ++i) {
    const Operand& operand = call.operands[i];
    mix(static_cast<uint64_t>(operand.element) << 16 |
        static_cast<uint64_t>(operand.is_permuted) << 8 | static_cast<uint64_t>(operand.rank));
    for (int k = 0; k < operand.rank; ++k) mix(static_cast<uint64_t>(operand.sizes[k]));
  }
  return key;
}

}  // namespace torch_trainium::timeline
