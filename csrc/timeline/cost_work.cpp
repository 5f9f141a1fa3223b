#include "timeline/cost_work.h"

#include <limits>

namespace torch_trainium::timeline {
namespace {

bool is_index(const Operand& operand) {
  return operand.element == Element::kInt64 || operand.element == Element::kInt32;
}

bool is_16bit(Element element) {
  return element == Element::kBfloat16 || element == Element::kFloat16;
}

bool all_16bit(const OperatorCall& call) {
  for (int i = 0; i < call.operand_count; ++i) {
    if (call.operands[i].elements > 1 && !is_16bit(call.operands[i].element)) return false;
  }
  return true;
}

// Words of 32 bits that the engine passes for one element.
double words(const OperatorCall& call) {
  int bytes = 4;
  for (int i = 0; i < call.operand_count; ++i) {
    if (call.operands[i].elements > 1) bytes = std::max<int>(bytes, call.operands[i].element_bytes);
  }
  return bytes / 4.0;
}

double pass_ns(const Constants& c, double elements, double lanes, double cycles, double ghz) {
  const double columns = std::ceil(elements / lanes);
  const double instructions = std::ceil(columns / c.instruction_columns);
  return columns * cycles / ghz + instructions * c.instruction_ns;
}

int64_t picoseconds(double ns) { return static_cast<int64_t>(ns * 1000.0 + 0.5); }

Bound bound_of(const Work& work) {
  constexpr Bound kBounds[kEngines] = {Bound::kTensor, Bound::kVector, Bound::kScalar,
                                       Bound::kGpSimd, Bound::kDma,    Bound::kCollective};
  int busiest = 0;
  for (int i = 1; i < kEngines; ++i) {
    if (work.engine_ns[i] > work.engine_ns[busiest]) busiest = i;
  }
  return work.engine_ns[busiest] > work.latency_ns ? kBounds[busiest] : Bound::kLaunch;
}

}  // namespace

double largest_elements(const OperatorCall& call) {
  double largest = result_elements(call);
  for (int i = 0; i < call.operand_count; ++i) {
    largest = std::max(largest, static_cast<double>(call.operands[i].elements));
  }
  return largest;
}

double given_elements(const OperatorCall& call) {
  double elements = 0;
  for (int i = 0; i < call.operand_count; ++i) {
    elements += static_cast<double>(call.operands[i].elements);
  }
  return elements;
}

bool is_on_lists(const OperatorCall& call) {
  double largest = 0;
  for (int i = 0; i < call.operand_count; ++i) {
    largest = std::max(largest, static_cast<double>(call.operands[i].elements));
  }
  return call.operand_count > 3 && result_elements(call) > largest;
}

double result_bytes(const OperatorCall& call) {
  double bytes = static_cast<double>(call.result_bytes);
  for (int i = 0; i < call.operand_count; ++i) bytes += written_bytes(call, i);
  return bytes;
}

double result_elements(const OperatorCall& call) {
  double elements = 0;
  for (int i = 0; i < call.operand_count; ++i) {
    if (call.operands[i].is_written) elements += static_cast<double>(call.operands[i].elements);
  }
  const Operand* first = input(call, 0);
  const double element_bytes = first != nullptr ? first->element_bytes : 4;
  return elements + static_cast<double>(call.result_bytes) / element_bytes;
}

const Operand* input(const OperatorCall& call, int n) {
  for (int i = 0; i < call.operand_count; ++i) {
    if (!call.operands[i].is_written && n-- == 0) return &call.operands[i];
  }
  return nullptr;
}

const Operand* indices(const OperatorCall& call) {
  for (int i = 0; i < call.operand_count; ++i) {
    if (!call.operands[i].is_written && is_index(call.operands[i])) return &call.operands[i];
  }
  return nullptr;
}

double innermost(const Operand& operand) {
  return operand.rank > 0
             ? std::max<double>(1, static_cast<double>(operand.sizes[operand.rank - 1]))
             : 1;
}

double vector_ns(const Constants& c, double elements, double cycles) {
  return pass_ns(c, elements, c.lanes * c.physical_cores, cycles, c.vector_ghz);
}

double scalar_ns(const Constants& c, double elements, double cycles) {
  return pass_ns(c, elements, c.lanes * c.physical_cores, cycles, c.scalar_ghz);
}

double gpsimd_ns(const Constants& c, double elements, double cycles) {
  return pass_ns(c, elements, c.gpsimd_lanes * c.physical_cores, cycles, c.gpsimd_ghz);
}

double unary_cycles(const Constants& c, const OperatorCall& call) {
  if (all_16bit(call)) return 1 / c.vector_16bit_speedup;
  return words(call) / c.vector_32bit_speedup;
}

double binary_cycles(const OperatorCall& call) { return all_16bit(call) ? 1 : 2 * words(call); }

double warmup_ns(const Constants& c, double tensor_ns) {
  return std::min(tensor_ns, c.tensor_warmup_ns / 2);
}

double combined_ns(const Work& work, double exposed_fraction) {
  double longest = 0;
  double sum = 0;
  for (const double ns : work.engine_ns) {
    longest = std::max(longest, ns);
    sum += ns;
  }
  return longest + exposed_fraction * (sum - longest);
}

// The greatest number stands for what is larger.
static int64_t saturated(double count) {
  return count < 0x1p63 ? static_cast<int64_t>(count) : std::numeric_limits<int64_t>::max();
}

Cost cost_of(const Work& work, double device_ns, double hbm_bytes) {
  Cost cost;
  cost.device_ps = picoseconds(device_ns);
  for (int i = 0; i < kEngines; ++i) cost.engine_ps[i] = picoseconds(work.engine_ns[i]);
  cost.flops = saturated(work.flops);
  cost.hbm_bytes = saturated(hbm_bytes);
  cost.bound = bound_of(work);
  return cost;
}

}  // namespace torch_trainium::timeline
