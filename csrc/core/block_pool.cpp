#include "core/block_pool.h"

#include <c10/core/AllocatorConfig.h>

namespace torch_trainium {

using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;

Block* BlockPool::find_large(size_t size) const {
  const auto best = tree_.lower_bound(size);
  if (best == tree_.end()) {
    return nullptr;
  }
  Block* block = *best;
  // Blocks above max_split_size are kept for requests of nearly their size.
  const size_t max_split = Config::max_split_size();
  if (size < max_split && block->size >= max_split) {
    return nullptr;
  }
  if (size >= max_split && block->size >= size + Config::max_non_split_rounding_size()) {
    return nullptr;
  }
  return block;
}

bool BlockPool::may_cut(size_t size) { return size < Config::max_split_size(); }

}  // namespace torch_trainium
