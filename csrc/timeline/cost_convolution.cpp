// Convolutions as one matrix product per kernel position, and operators on windows.
#include "timeline/cost_work.h"

namespace torch_trainium::timeline {
namespace {

// Direct convolution: every kernel position is a product over the input channels, which fill
// the array's rows only as far as there are channels.
MatrixProduct position_product(const Operand& weight, double positions) {
  const double out_channels = static_cast<double>(weight.sizes[0]);
  const double in_channels = weight.rank >= 2 ? static_cast<double>(weight.sizes[1]) : 1;
  return {1, std::max(1.0, positions), in_channels, out_channels, weight.element};
}

double kernel_positions(const Operand& weight) {
  double positions = 1;
  for (int i = 2; i < weight.rank; ++i) positions *= static_cast<double>(weight.sizes[i]);
  return positions;
}

void convolve(const Constants& c, const Operand& weight, double positions, double times,
              Work& work) {
  const MatrixProduct product = position_product(weight, positions);
  const double repeats = times * kernel_positions(weight);
  work.on(Engine::kTensor) += repeats * tensor_ns(c, product);
  work.flops += repeats * product.flops();
  work.on(Engine::kVector) += times * vector_ns(c, product.rows * product.columns, 1);
}

// Output positions of all images: result elements over output channels.
double positions_of(double result_elements, const Operand& weight) {
  return std::ceil(result_elements / std::max(1.0, static_cast<double>(weight.sizes[0])));
}

}  // namespace

void convolution_work(const Constants& c, const OperatorCall& call, Work& work) {
  const Operand* weight = input(call, 1);
  if (weight == nullptr || weight->rank < 2) return;
  convolve(c, *weight, positions_of(result_elements(call), *weight), 1, work);
}

// Operands: gradient of the result, input, weight. One product for each of the two gradients.
void convolution_backward_work(const Constants& c, const OperatorCall& call, Work& work) {
  const Operand* gradient = input(call, 0);
  const Operand* weight = input(call, 2);
  if (weight == nullptr || weight->rank < 2) return;
  const double positions = positions_of(static_cast<double>(gradient->elements), *weight);
  convolve(c, *weight, positions, 2, work);
  // The weight's gradient sums over positions, which must come to lie along the rows.
  work.on(Engine::kTensor) +=
      tensor_transpose_ns(c, largest_elements(call) * kernel_positions(*weight), gradient->element);
}

// The window's size is not among the operands: one comparison an input element at least.
void pooling_work(const Constants& c, const OperatorCall& call, Work& work) {
  const double elements = largest_elements(call);
  work.on(Engine::kVector) += vector_ns(c, elements, 2);
  work.flops += elements;
}

// Four neighbours, weighted.
void resample_work(const Constants& c, const OperatorCall& call, Work& work) {
  const double elements = largest_elements(call);
  work.on(Engine::kVector) += vector_ns(c, 4 * elements, 2);
  work.flops += 8 * elements;
}

}  // namespace torch_trainium::timeline
