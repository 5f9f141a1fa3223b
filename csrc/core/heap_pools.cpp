// Arenas and memory pools of a DeviceHeap.
#include <algorithm>

#include "core/device_heap.h"

namespace torch_trainium {

Arena& DeviceHeap::find_arena(int64_t stream, const c10::MempoolId_t& pool_id) {
  const auto found = std::ranges::find_if(arenas_, [&](const auto& arena) {
    return arena->stream == stream && arena->pool_id() == pool_id;
  });
  if (found != arenas_.end()) {
    last_arena_ = found->get();
  } else {
    PrivatePool* owner = pool_id == kDefaultPool ? nullptr : &private_pool(pool_id);
    last_arena_ = arenas_.emplace_back(std::make_unique<Arena>(*this, stream, owner)).get();
  }
  return *last_arena_;
}

void DeviceHeap::drop_empty_orphans() {
  last_arena_ = nullptr;
  std::erase_if(arenas_, [](const auto& a) { return a->is_orphaned() && a->segment_count == 0; });
  std::erase_if(private_pools_, [&](const auto& pool) {
    return pool->use_count == 0 &&
           std::ranges::none_of(arenas_, [&](const auto& a) { return a->owner == pool.get(); });
  });
}

PrivatePool& DeviceHeap::private_pool(const c10::MempoolId_t& id) {
  for (const auto& pool : private_pools_) {
    if (pool->id == id) {
      return *pool;
    }
  }
  return *private_pools_.emplace_back(std::make_unique<PrivatePool>(PrivatePool{.id = id}));
}

void DeviceHeap::create_pool(c10::MempoolId_t id, bool use_on_oom, bool no_split) {
  const std::lock_guard lock(lock_);
  private_pool(id) = {.id = id, .use_count = 1, .use_on_oom = use_on_oom, .no_split = no_split};
}

void DeviceHeap::retain_pool(c10::MempoolId_t id) {
  const std::lock_guard lock(lock_);
  ++private_pool(id).use_count;
}

void DeviceHeap::release_pool(c10::MempoolId_t id) {
  const std::lock_guard lock(lock_);
  if (--private_pool(id).use_count > 0) {
    return;
  }
  for (Block* block : unused_segments()) {
    if (block->pool->arena().is_orphaned()) {
      release_segment(block, nullptr);
    }
  }
  drop_empty_orphans();
}

int DeviceHeap::pool_use_count(c10::MempoolId_t id) {
  const std::lock_guard lock(lock_);
  return private_pool(id).use_count;
}

}  // namespace torch_trainium
