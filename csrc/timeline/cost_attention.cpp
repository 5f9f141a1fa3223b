// Scaled dot-product attention in tiles, scores never in HBM (flash attention).
#include "timeline/cost_work.h"

namespace torch_trainium::timeline {
namespace {

struct Attention {
  MatrixProduct scores;  // Q K^T
  MatrixProduct values;  // P V
  double score_elements = 0;
};

// Operands: query [..., L, E], key [..., S, E], value, possibly after others.
Attention attention_of(const Operand& query, const Operand& key) {
  const double width = innermost(query);
  const double rows = query.rank >= 2 ? static_cast<double>(query.sizes[query.rank - 2]) : 1;
  const double keys = key.rank >= 2 ? static_cast<double>(key.sizes[key.rank - 2]) : 1;
  const double heads = std::ceil(static_cast<double>(query.elements) / std::max(1.0, rows * width));
  return {.scores = {heads, rows, width, keys, query.element},
          .values = {heads, rows, keys, width, query.element},
          .score_elements = heads * rows * keys};
}

}  // namespace

// Per score: maximum, rescale and the copy of the transposed tile out of PSUM on VectorE, the
// exponential with its sum on ScalarE; the array turns the tile before the second product.
void attention_work(const Constants& c, const OperatorCall& call, Work& work) {
  const Operand* query = input(call, 0);
  const Operand* key = input(call, 1);
  if (key == nullptr) return;
  const Attention a = attention_of(*query, *key);
  work.on(Engine::kTensor) += tensor_ns(c, a.scores) + tensor_ns(c, a.values) +
                              tensor_transpose_ns(c, a.score_elements, query->element);
  work.on(Engine::kScalar) += scalar_ns(c, a.score_elements, 1);
  work.on(Engine::kVector) += vector_ns(c, a.score_elements, 3);
  work.flops += a.scores.flops() + a.values.flops();
}

// Scores again, then the gradients of values, probabilities, queries and keys: five products.
// Operands: gradient of the result, query, key, value, result, ...
void attention_backward_work(const Constants& c, const OperatorCall& call, Work& work) {
  const Operand* query = input(call, 1);
  const Operand* key = input(call, 2);
  if (key == nullptr) return;
  const Attention a = attention_of(*query, *key);
  work.on(Engine::kTensor) += 3 * tensor_ns(c, a.scores) + 2 * tensor_ns(c, a.values) +
                              2 * tensor_transpose_ns(c, a.score_elements, query->element);
  work.on(Engine::kScalar) += scalar_ns(c, a.score_elements, 1);
  work.on(Engine::kVector) += vector_ns(c, a.score_elements, 6);
  work.flops += 3 * a.scores.flops() + 2 * a.values.flops();
}

}  // namespace torch_trainium::timeline
