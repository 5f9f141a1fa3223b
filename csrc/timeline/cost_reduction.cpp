// Operators that combine elements of a row or of the whole tensor.
#include "timeline/cost_work.h"

namespace torch_trainium::timeline {
namespace {

// Comparisons have no wide mode and reach the far partitions by transposing.
constexpr double kExtremumCycles = 2.75;

}  // namespace

// Sums accumulate in the wide mode.
void reduction_work(const Constants& c, const OperatorCall& call, Work& work) {
  const double elements = largest_elements(call);
  work.on(Engine::kVector) += vector_ns(c, elements, binary_cycles(call) / 2);
  work.flops += elements;
}

void extremum_work(const Constants& c, const OperatorCall& call, Work& work) {
  const double elements = largest_elements(call);
  work.on(Engine::kVector) += vector_ns(c, elements, kExtremumCycles);
  work.flops += elements;
}

// Along a row in sequence, rows side by side: lanes without a row stay idle.
void scan_work(const Constants& c, const OperatorCall& call, Work& work) {
  const Operand* x = input(call, 0);
  if (x == nullptr) return;
  const double length = innermost(*x);
  const double rows = std::ceil(static_cast<double>(x->elements) / length);
  const double lanes = c.lanes * c.physical_cores;
  work.on(Engine::kVector) += vector_ns(c, std::ceil(rows / lanes) * lanes * length, 2);
  work.flops += static_cast<double>(x->elements);
}

// Maximum on VectorE, exponential with the sum on ScalarE, division on VectorE.
void softmax_work(const Constants& c, const OperatorCall& call, Work& work) {
  const double elements = largest_elements(call);
  work.on(Engine::kVector) += vector_ns(c, elements, 1 + unary_cycles(c, call));
  work.on(Engine::kScalar) += scalar_ns(c, elements, 1);
  work.flops += 4 * elements;
}

// Statistics on ScalarE with its accumulator; scale and weight on VectorE.
void normalization_work(const Constants& c, const OperatorCall& call, Work& work) {
  const double elements = largest_elements(call);
  work.on(Engine::kScalar) += scalar_ns(c, elements, 1);
  work.on(Engine::kVector) += vector_ns(c, elements, unary_cycles(c, call) + binary_cycles(call));
  work.flops += 4 * elements;
}

// Two row sums of products and the combination of three tensors.
void normalization_backward_work(const Constants& c, const OperatorCall& call, Work& work) {
  const double elements = largest_elements(call);
  work.on(Engine::kScalar) += scalar_ns(c, elements, 2);
  work.on(Engine::kVector) += vector_ns(c, elements, 4 * binary_cycles(call));
  work.flops += 8 * elements;
}

// Logarithm of a softmax and a sum.
void loss_work(const Constants& c, const OperatorCall& call, Work& work) {
  const double elements = largest_elements(call);
  work.on(Engine::kScalar) += scalar_ns(c, elements, 1);
  work.on(Engine::kVector) += vector_ns(c, elements, 1 + binary_cycles(call));
  work.flops += 4 * elements;
}

}  // namespace torch_trainium::timeline
