// Operators whose addresses are data: DMA descriptors are made one by one.
#include "timeline/cost_work.h"

namespace torch_trainium::timeline {
namespace {

// max8 finds eight values in one pass.
constexpr double kMaximaAPass = 8;

// GpSimdE computes dynamic addresses; the queues work on their descriptors in parallel.
void access(const Constants& c, double accesses, double cores, Work& work) {
  work.on(Engine::kGpSimd) += gpsimd_ns(c, accesses, 1);
  work.on(Engine::kDma) += accesses * c.dma_software_descriptor_ns / (c.dma_engines * cores);
}

double index_count(const OperatorCall& call) {
  const Operand* index = indices(call);
  return index != nullptr ? static_cast<double>(index->elements) : 1;
}

// Lanes hold rows, so that few rows leave most lanes idle.
double occupied_elements(const Constants& c, const Operand& x) {
  const double length = innermost(x);
  const double lanes = c.lanes * c.physical_cores;
  return std::ceil(std::ceil(static_cast<double>(x.elements) / length) / lanes) * lanes * length;
}

}  // namespace

void row_gather_work(const Constants& c, const OperatorCall& call, Work& work) {
  access(c, index_count(call), c.physical_cores, work);
}

// Rows are read, added to and written back, one after the other where they may coincide.
void embedding_backward_work(const Constants& c, const OperatorCall& call, Work& work) {
  const Operand* gradient = input(call, 0);
  if (gradient == nullptr) return;
  access(c, 2 * index_count(call), c.physical_cores, work);
  work.on(Engine::kVector) += vector_ns(c, static_cast<double>(gradient->elements), 2);
  work.flops += static_cast<double>(gradient->elements);
}

// Measured on both physical cores together at the rate of one core's queues.
void element_gather_work(const Constants& c, const OperatorCall& call, Work& work) {
  access(c, index_count(call), 1, work);
}

// Read, combine and write every element that an index names; rows where the source has rows.
void scatter_work(const Constants& c, const OperatorCall& call, Work& work) {
  access(c, 2 * index_count(call), 1, work);
  work.flops += index_count(call);
}

// Eight maxima a pass until the row is exhausted.
void sort_work(const Constants& c, const OperatorCall& call, Work& work) {
  const Operand* x = input(call, 0);
  if (x == nullptr) return;
  const double passes = std::ceil(innermost(*x) / kMaximaAPass);
  work.on(Engine::kVector) += vector_ns(c, 2 * passes * occupied_elements(c, *x), 1);
  work.flops += passes * static_cast<double>(x->elements);
}

void topk_work(const Constants& c, const OperatorCall& call, Work& work) {
  const Operand* x = input(call, 0);
  if (x == nullptr) return;
  // Each result is a value and an index of eight bytes.
  const double rows = std::max(1.0, static_cast<double>(x->elements) / innermost(*x));
  const double found = result_bytes(call) / (rows * (x->element_bytes + 8.0));
  const double passes = std::max(1.0, std::ceil(found / kMaximaAPass));
  work.on(Engine::kVector) += vector_ns(c, (2 * passes - 1) * occupied_elements(c, *x), 1);
  work.flops += passes * static_cast<double>(x->elements);
}

}  // namespace torch_trainium::timeline
