#include "core/memory_extent.h"

#include <algorithm>

namespace torch_trainium {
namespace {

using Dimension = MemoryExtent::Dimension;

// Beyond so many combinations of steps, two tensors count as overlapping.
constexpr int kMaxSteps = 4096;

// A stride that two tensors have in common; a tensor without it has size 1 there.
struct CommonDimension {
  int64_t stride_bytes;
  int64_t size_a;
  int64_t size_b;
  // How far the narrower dimensions together lead in each tensor.
  int64_t reach_a = 0;
  int64_t reach_b = 0;
};
using CommonDimensions = c10::SmallVector<CommonDimension, 8>;

CommonDimensions common_dimensions(const MemoryExtent& a, const MemoryExtent& b) {
  CommonDimensions common;
  const auto* in_a = a.dimensions.begin();
  const auto* in_b = b.dimensions.begin();
  while (in_a != a.dimensions.end() || in_b != b.dimensions.end()) {
    const int64_t stride_a = in_a == a.dimensions.end() ? 0 : in_a->stride_bytes;
    const int64_t stride_b = in_b == b.dimensions.end() ? 0 : in_b->stride_bytes;
    const int64_t stride = std::max(stride_a, stride_b);
    common.push_back(
        {stride, stride_a == stride ? (in_a++)->size : 1, stride_b == stride ? (in_b++)->size : 1});
  }
  int64_t reach_a = 0;
  int64_t reach_b = 0;
  for (auto dimension = common.rbegin(); dimension != common.rend(); ++dimension) {
    dimension->reach_a = reach_a;
    dimension->reach_b = reach_b;
    reach_a += dimension->stride_bytes * (dimension->size_a - 1);
    reach_b += dimension->stride_bytes * (dimension->size_b - 1);
  }
  return common;
}

int64_t floor_of(int64_t dividend, int64_t divisor) {
  return dividend / divisor - (dividend % divisor < 0 ? 1 : 0);
}

// Whether a byte of `a` and one of `b` coincide if `b` begins at `distance`, by the
// dimensions from `from` on.
bool coincide(const CommonDimensions& dimensions, size_t from, int64_t distance, int& steps_left) {
  if (from == dimensions.size()) return distance == 0;
  const CommonDimension& here = dimensions[from];
  const int64_t stride = here.stride_bytes;
  const int64_t first = std::max(1 - here.size_b, -floor_of(here.reach_a - distance, stride));
  const int64_t last = std::min(here.size_a - 1, floor_of(distance + here.reach_b, stride));
  for (int64_t step = first; step <= last; ++step) {
    if (--steps_left < 0 || coincide(dimensions, from + 1, distance - step * stride, steps_left)) {
      return true;
    }
  }
  return false;
}

}  // namespace

MemoryExtent extent_of(const timeline::Access& access) {
  MemoryExtent extent{access.data, access.data, {}};
  c10::SmallVector<Dimension, 4> strided;
  for (int i = 0; i < access.rank; ++i) {
    if (access.sizes[i] == 0) return extent;
    const int64_t stride_bytes = access.strides[i] * access.element_bytes;
    if (access.sizes[i] > 1 && stride_bytes > 0) strided.push_back({stride_bytes, access.sizes[i]});
  }
  strided.push_back({1, access.element_bytes});
  std::sort(strided.begin(), strided.end(),
            [](const Dimension& a, const Dimension& b) { return a.stride_bytes > b.stride_bytes; });
  int64_t last_byte = 0;
  for (const Dimension& dimension : strided) {
    last_byte += dimension.stride_bytes * (dimension.size - 1);
    Dimension* outer = extent.dimensions.empty() ? nullptr : &extent.dimensions.back();
    if (outer != nullptr && outer->stride_bytes == dimension.stride_bytes * dimension.size) {
      *outer = {dimension.stride_bytes, outer->size * dimension.size};
    } else {
      extent.dimensions.push_back(dimension);
    }
  }
  extent.end = extent.begin + last_byte + 1;
  return extent;
}

bool overlap(const MemoryExtent& a, const MemoryExtent& b) {
  if (a.begin >= b.end || b.begin >= a.end) return false;
  int steps_left = kMaxSteps;
  return coincide(common_dimensions(a, b), 0, b.begin - a.begin, steps_left);
}

bool covers(const MemoryExtent& whole, const MemoryExtent& part) {
  if (whole.is_dense()) return whole.begin <= part.begin && part.end <= whole.end;
  return whole.begin == part.begin &&
         std::equal(whole.dimensions.begin(), whole.dimensions.end(), part.dimensions.begin(),
                    part.dimensions.end(), [](const Dimension& a, const Dimension& b) {
                      return a.stride_bytes == b.stride_bytes && a.size == b.size;
                    });
}

}  // namespace torch_trainium
