// How an operator uses a core. Each class has a cost formula of its own in
// cost_model.cpp; hardware/data/operator_classes.toml gives every overload its class.
#pragma once

#include <cstdint>

namespace torch_trainium::timeline {

// name in C++, name in the data files
#define TORCH_TRAINIUM_COST_CLASSES(_)                \
  _(kFree, "free")                                    \
  _(kFill, "fill")                                    \
  _(kCopy, "copy")                                    \
  _(kPointwise, "pointwise")                          \
  _(kActivation, "activation")                        \
  _(kReduction, "reduction")                          \
  _(kExtremum, "extremum")                            \
  _(kScan, "scan")                                    \
  _(kSoftmax, "softmax")                              \
  _(kNormalization, "normalization")                  \
  _(kNormalizationBackward, "normalization_backward") \
  _(kMatmul, "matmul")                                \
  _(kConvolution, "convolution")                      \
  _(kConvolutionBackward, "convolution_backward")     \
  _(kAttention, "attention")                          \
  _(kAttentionBackward, "attention_backward")         \
  _(kEmbedding, "embedding")                          \
  _(kEmbeddingBackward, "embedding_backward")         \
  _(kRowGather, "row_gather")                         \
  _(kElementGather, "element_gather")                 \
  _(kScatter, "scatter")                              \
  _(kSort, "sort")                                    \
  _(kTopK, "topk")                                    \
  _(kPooling, "pooling")                              \
  _(kResample, "resample")                            \
  _(kRandom, "random")                                \
  _(kOptimizer, "optimizer")                          \
  _(kLoss, "loss")                                    \
  _(kRecurrent, "recurrent")                          \
  _(kFourier, "fourier")                              \
  _(kCpuFallback, "cpu_fallback")                     \
  _(kHostRead, "host_read")                           \
  _(kTransfer, "transfer")                            \
  _(kCollective, "collective")

enum class CostClass : uint8_t {
#define TORCH_TRAINIUM_CLASS(name, text) name,
  TORCH_TRAINIUM_COST_CLASSES(TORCH_TRAINIUM_CLASS)
#undef TORCH_TRAINIUM_CLASS
};

}  // namespace torch_trainium::timeline
