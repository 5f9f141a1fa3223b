// Which bytes of memory a strided tensor occupies.
#pragma once

#include <c10/util/SmallVector.h>

#include <cstddef>
#include <cstdint>

#include "timeline/operator_call.h"

namespace torch_trainium {

struct MemoryExtent {
  struct Dimension {
    int64_t stride_bytes;
    int64_t size;
  };

  const std::byte* begin;
  const std::byte* end;
  // Widest stride first, neighbours joined: dense memory has one, of single bytes.
  c10::SmallVector<Dimension, 4> dimensions;

  bool is_dense() const { return dimensions.size() <= 1; }
};

MemoryExtent extent_of(const timeline::Access& access);

// Whether two tensors share a byte; true where that takes too long to tell.
bool overlap(const MemoryExtent& a, const MemoryExtent& b);

// Whether `whole` surely has every byte of `part`.
bool covers(const MemoryExtent& whole, const MemoryExtent& part);

}  // namespace torch_trainium
