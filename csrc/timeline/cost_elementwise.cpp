// Operators that pass once over every element.
#include "timeline/cost_work.h"

namespace torch_trainium::timeline {
namespace {

// Vector instructions of a fused Adam step for each element it writes (parameter and two moments).
constexpr double kOptimizerPasses = 4;
// Threefry and the map of its bits to a distribution, in 32-bit integer instructions.
constexpr double kRandomPasses = 8;

int wide_inputs(const OperatorCall& call) {
  int count = 0;
  for (int i = 0; i < call.operand_count; ++i) count += call.operands[i].elements > 1;
  return count;
}

}  // namespace

void no_work(const Constants&, const OperatorCall&, Work&) {}

void fill_work(const Constants& c, const OperatorCall& call, Work& work) {
  work.on(Engine::kVector) += vector_ns(c, result_elements(call), unary_cycles(c, call));
}

// DMA alone where the types agree; a cast passes an engine.
void copy_work(const Constants& c, const OperatorCall& call, Work& work) {
  double given_bytes = 0;
  for (int i = 0; i < call.operand_count; ++i) {
    if (!call.operands[i].is_written) given_bytes += static_cast<double>(call.operands[i].bytes());
  }
  if (given_bytes > 0 && result_bytes(call) != given_bytes) {
    work.on(Engine::kVector) += vector_ns(c, largest_elements(call), unary_cycles(c, call));
  }
}

void pointwise_work(const Constants& c, const OperatorCall& call, Work& work) {
  if (is_on_lists(call)) {
    const double results = result_elements(call);
    const double combined = given_elements(call) - results;
    work.on(Engine::kVector) += std::max(vector_ns(c, results, unary_cycles(c, call)),
                                         vector_ns(c, combined, binary_cycles(call)));
    work.flops += std::max(results, combined);
    return;
  }
  const double elements = largest_elements(call);
  const int inputs = wide_inputs(call);
  const double cycles = inputs >= 2 ? (inputs - 1) * binary_cycles(call) : unary_cycles(c, call);
  work.on(Engine::kVector) += vector_ns(c, elements, cycles);
  work.flops += elements * std::max(1, inputs - 1);
}

void activation_work(const Constants& c, const OperatorCall& call, Work& work) {
  const double elements = largest_elements(call);
  work.on(Engine::kScalar) += scalar_ns(c, elements, 1);
  if (wide_inputs(call) >= 2) {  // backward: times the gradient
    work.on(Engine::kVector) += vector_ns(c, elements, binary_cycles(call));
  }
  work.flops += elements;
}

void random_work(const Constants& c, const OperatorCall& call, Work& work) {
  const double elements = largest_elements(call);
  work.on(Engine::kVector) += vector_ns(c, elements * kRandomPasses, 1);
  work.flops += elements;
}

void optimizer_work(const Constants& c, const OperatorCall& call, Work& work) {
  const double written = result_elements(call);
  work.on(Engine::kVector) += vector_ns(c, written * kOptimizerPasses, 2);
  work.on(Engine::kScalar) += scalar_ns(c, written, 1);
  work.flops += written * kOptimizerPasses;
}

}  // namespace torch_trainium::timeline
