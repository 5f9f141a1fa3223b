// What the formulas of the operator families share; only csrc/timeline/cost_*.cpp include it.
#pragma once

#include <algorithm>
#include <cmath>

#include "timeline/cost_model.h"

namespace torch_trainium::timeline {

// What one operator asks of one logical core, HBM traffic apart.
struct Work {
  double engine_ns[kEngines] = {};
  double flops = 0;
  double latency_ns = 0;  // in which no engine is busy

  double& on(Engine engine) { return engine_ns[static_cast<int>(engine)]; }
  double on(Engine engine) const { return engine_ns[static_cast<int>(engine)]; }
};

using Formula = void (*)(const Constants&, const OperatorCall&, Work&);

// One formula a class, by the order of cost_class.h.
Formula formula_of(CostClass cost_class);

// --- sizes
// Elements of the largest tensor the call touches, its result among them.
double largest_elements(const OperatorCall& call);
// Elements of all tensors it is given.
double given_elements(const OperatorCall& call);
// Whether it works on lists of tensors, as the operators `_foreach_*` do: more tensors than any
// other operator has, and results that no single one of them could broadcast to.
bool is_on_lists(const OperatorCall& call);
// Elements of the results, whether allocated, in place or `out=`.
double result_elements(const OperatorCall& call);
double result_bytes(const OperatorCall& call);
// The n-th operand that is read only; null where there are fewer.
const Operand* input(const OperatorCall& call, int n);
// The first integer operand that is read only: indices.
const Operand* indices(const OperatorCall& call);
// Size of the innermost dimension, at least 1.
double innermost(const Operand& operand);

// --- engines: time for `elements` spread over all lanes
// A pass over one tensor; `is_fast` where the engine has a wide mode for it (sources in SBUF).
double vector_ns(const Constants& c, double elements, double cycles_per_element);
double scalar_ns(const Constants& c, double elements, double cycles_per_element);
double gpsimd_ns(const Constants& c, double elements, double cycles_per_element);
// Cycles VectorE takes per element and lane with one tensor input, and with two.
double unary_cycles(const Constants& c, const OperatorCall& call);
double binary_cycles(const OperatorCall& call);

struct MatrixProduct {
  double batch = 1;
  double rows = 1;     // M
  double depth = 1;    // K
  double columns = 1;  // N
  Element element = Element::kBfloat16;

  double flops() const { return 2 * batch * rows * depth * columns; }
};
// What a call of class matmul multiplies.
MatrixProduct product_of(const OperatorCall& call);
double tensor_ns(const Constants& c, const MatrixProduct& product);
// What an eager product spends on turning its factors, which a compiled graph lays out ahead.
double eager_layout_ns(const Constants& c, const OperatorCall& call);
// 128x128 blocks of `elements` turned through the PE array.
double tensor_transpose_ns(const Constants& c, double elements, Element element);

// --- memory
// Bytes the call reads from operand `index`, and what it writes there.
double read_bytes(const OperatorCall& call, int index);
double written_bytes(const OperatorCall& call, int index);
// Bytes per nanosecond (GB/s) one logical core streams, at an efficiency.
double stream_gbps(const Constants& c, double efficiency);
// DMA time of `bytes` in pieces of `piece_bytes`, each a descriptor.
double descriptors_ns(const Constants& c, double bytes, double piece_bytes);
// DMA time beyond that of streaming: to make a strided operand dense, or to turn a copied one.
double gather_strides_ns(const Constants& c, const OperatorCall& call, const Operand& operand);

// --- totals
// What the array loses to its clock, which starts at half rate.
double warmup_ns(const Constants& c, double tensor_ns);
// The busiest engine hides the others but for a fraction of theirs.
double combined_ns(const Work& work, double exposed_fraction);
Cost cost_of(const Work& work, double device_ns, double hbm_bytes);
double collective_ns(const Constants& c, Collective kind, double bytes, const ReplicaGroup& group);

#define TORCH_TRAINIUM_FORMULA(name) \
  void name(const Constants& c, const OperatorCall& call, Work& work);
// cost_matmul.cpp, cost_convolution.cpp
TORCH_TRAINIUM_FORMULA(matmul_work)
TORCH_TRAINIUM_FORMULA(recurrent_work)
TORCH_TRAINIUM_FORMULA(fourier_work)
TORCH_TRAINIUM_FORMULA(convolution_work)
TORCH_TRAINIUM_FORMULA(convolution_backward_work)
TORCH_TRAINIUM_FORMULA(pooling_work)
TORCH_TRAINIUM_FORMULA(resample_work)
// cost_attention.cpp
TORCH_TRAINIUM_FORMULA(attention_work)
TORCH_TRAINIUM_FORMULA(attention_backward_work)
// cost_elementwise.cpp, cost_reduction.cpp
TORCH_TRAINIUM_FORMULA(no_work)
TORCH_TRAINIUM_FORMULA(fill_work)
TORCH_TRAINIUM_FORMULA(copy_work)
TORCH_TRAINIUM_FORMULA(pointwise_work)
TORCH_TRAINIUM_FORMULA(activation_work)
TORCH_TRAINIUM_FORMULA(random_work)
TORCH_TRAINIUM_FORMULA(optimizer_work)
TORCH_TRAINIUM_FORMULA(reduction_work)
TORCH_TRAINIUM_FORMULA(extremum_work)
TORCH_TRAINIUM_FORMULA(scan_work)
TORCH_TRAINIUM_FORMULA(softmax_work)
TORCH_TRAINIUM_FORMULA(normalization_work)
TORCH_TRAINIUM_FORMULA(normalization_backward_work)
TORCH_TRAINIUM_FORMULA(loss_work)
// cost_indexing.cpp
TORCH_TRAINIUM_FORMULA(row_gather_work)
TORCH_TRAINIUM_FORMULA(embedding_backward_work)
TORCH_TRAINIUM_FORMULA(element_gather_work)
TORCH_TRAINIUM_FORMULA(scatter_work)
TORCH_TRAINIUM_FORMULA(sort_work)
TORCH_TRAINIUM_FORMULA(topk_work)
// cost_memory.cpp
TORCH_TRAINIUM_FORMULA(transfer_work)
TORCH_TRAINIUM_FORMULA(cpu_fallback_work)
TORCH_TRAINIUM_FORMULA(local_collective_work)
#undef TORCH_TRAINIUM_FORMULA

}  // namespace torch_trainium::timeline
