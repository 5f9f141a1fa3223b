// Matrix products on TensorE and what is built of them.
#include "timeline/cost_work.h"

namespace torch_trainium::timeline {
namespace {

// How much faster than bf16 the array takes an element type; below 1 where slower.
double speedup(const Constants& c, Element element) {
  switch (element) {
    case Element::kFloat8:
      return c.tensor_fp8_speedup;
    case Element::kMxFloat8:
    case Element::kMxFloat4:
      return c.tensor_mx_speedup;
    case Element::kTf32:
    case Element::kBfloat16:
    case Element::kFloat16:
    case Element::kInt8:
      return 1;
    case Element::kFloat32:
    case Element::kInt16:  // integers pass through fp32
    case Element::kInt32:
    case Element::kInt64:
      return 1 / c.tensor_fp32_passes;
    case Element::kFloat64:
    case Element::kComplex:  // four real products
      return 1 / (4 * c.tensor_fp32_passes);
  }
  return 1;
}

// Cycles with `kept` columns stationary in the array and `moved` rows streaming through.
double cycles(const Constants& c, double depth_tiles, double kept, double moved) {
  const double instructions = std::ceil(moved / c.psum_columns);
  const double moving = std::max(moved, instructions * c.tensor_minimum_cycles);
  return depth_tiles * std::ceil(kept / c.tensor_columns) * (moving + c.tensor_weight_load_cycles);
}

// The last two dimensions as a matrix, a vector as one column or row.
double rows_of(const Operand& x) {
  if (x.rank == 0) return 1;
  return static_cast<double>(x.sizes[x.rank >= 2 ? x.rank - 2 : 0]);
}

struct Factors {
  const Operand* left = nullptr;
  const Operand* right = nullptr;
};

bool is_product(const Operand& left, const Operand& right) {
  return left.rank >= 1 && right.rank >= 1 && innermost(left) == rows_of(right);
}

bool is_linear(const Operand& left, const Operand& right) {
  return left.rank >= 1 && right.rank == 2 && innermost(left) == innermost(right);
}

// addmm and its kin have the summand first, linear has its bias last.
Factors factors(const OperatorCall& call) {
  const Operand* a = input(call, 0);
  const Operand* b = input(call, 1);
  const Operand* third = input(call, 2);
  if (third == nullptr) return {a, b};
  if (third->rank == 1 && a->rank >= 2 && is_linear(*a, *b)) return {a, b};
  return is_product(*b, *third) ? Factors{b, third} : Factors{a, b};
}

MatrixProduct product_of(const OperatorCall& call) {
  MatrixProduct product;
  const auto [left, right] = factors(call);
  if (left == nullptr) return product;
  product.element = left->element;
  if (right == nullptr) {  // the product with itself
    product.depth = innermost(*left);
    product.rows = static_cast<double>(left->elements) / product.depth;
    product.columns = product.rows;
    return product;
  }
  product.depth = std::max(1.0, left->rank > 0 ? innermost(*left) : 1);
  if (right->rank >= 3) {
    product.batch = std::max(1.0, static_cast<double>(right->elements) /
                                      std::max(1.0, rows_of(*right) * innermost(*right)));
  }
  product.rows = std::ceil(static_cast<double>(left->elements) / (product.batch * product.depth));
  product.columns =
      std::ceil(static_cast<double>(right->elements) / (product.batch * product.depth));
  return product;
}

}  // namespace

double tensor_ns(const Constants& c, const MatrixProduct& product) {
  const double depth_tiles = std::ceil(product.depth / c.tensor_rows);
  // Each physical core takes half of the larger side, or half of the batch.
  double rows = product.rows;
  double columns = product.columns;
  double batch = product.batch;
  double& split = batch >= c.physical_cores ? batch : (rows > columns ? rows : columns);
  split = std::ceil(split / c.physical_cores);
  const double fewest =
      std::min(cycles(c, depth_tiles, rows, columns), cycles(c, depth_tiles, columns, rows));
  return batch * fewest / (speedup(c, product.element) * c.tensor_ghz * c.tensor_efficiency);
}

double tensor_transpose_ns(const Constants& c, double elements, Element element) {
  const double blocks = std::ceil(elements / (c.tensor_rows * c.tensor_columns));
  const double passes = element == Element::kFloat32 ? 2 : 1;
  return blocks * passes * c.tensor_columns / (c.tensor_ghz * c.physical_cores);
}

// The depth of both factors has to lie along the array's rows: the array turns what lies otherwise.
double eager_layout_ns(const Constants& c, const OperatorCall& call) {
  if (call.cost_class != CostClass::kMatmul) return 0;
  const auto [left, right] = factors(call);
  if (right == nullptr || right->rank < 2) return 0;
  double ns = 0;
  const bool is_left_turned = left->rank >= 2 && !left->is_permuted;
  const bool is_right_turned = is_product(*left, *right) == right->is_permuted;
  if (is_left_turned)
    ns += tensor_transpose_ns(c, static_cast<double>(left->elements), left->element);
  if (is_right_turned)
    ns += tensor_transpose_ns(c, static_cast<double>(right->elements), right->element);
  return ns;
}

void matmul_work(const Constants& c, const OperatorCall& call, Work& work) {
  const MatrixProduct product = product_of(call);
  work.on(Engine::kTensor) += tensor_ns(c, product);
  work.flops += product.flops();
  // PSUM leaves through VectorE, one element a cycle and lane.
  work.on(Engine::kVector) += vector_ns(c, product.batch * product.rows * product.columns, 1);
}

// One step after the other, weights resident; four gates' worth in the largest weight.
void recurrent_work(const Constants& c, const OperatorCall& call, Work& work) {
  const Operand* sequence = input(call, 0);
  if (sequence == nullptr) return;
  const double steps = sequence->rank >= 3 ? static_cast<double>(sequence->sizes[0]) : 1;
  const double width = innermost(*sequence);
  const double rows = std::ceil(static_cast<double>(sequence->elements) / (steps * width));
  for (int i = 1; i < call.operand_count; ++i) {
    const Operand& weight = call.operands[i];
    if (weight.rank != 2) continue;
    const MatrixProduct product{1, rows, innermost(weight), rows_of(weight), weight.element};
    work.on(Engine::kTensor) += steps * tensor_ns(c, product);
    work.on(Engine::kScalar) += steps * scalar_ns(c, product.rows * product.columns, 1);
    work.on(Engine::kVector) += steps * vector_ns(c, product.rows * product.columns, 2);
    work.flops += steps * product.flops();
  }
  work.latency_ns += steps * c.operator_latency_ns;
}

// The compiler knows no FFT: products with the matrices of the transform, sines and cosines.
void fourier_work(const Constants& c, const OperatorCall& call, Work& work) {
  const Operand* signal = input(call, 0);
  if (signal == nullptr) return;
  const double length = innermost(*signal);
  const MatrixProduct product{1, 2 * std::ceil(static_cast<double>(signal->elements) / length),
                              length, 2 * length, Element::kFloat32};
  work.on(Engine::kTensor) += tensor_ns(c, product);
  work.flops += product.flops();
  work.on(Engine::kVector) += vector_ns(c, product.rows * product.columns, 2);
}

}  // namespace torch_trainium::timeline
