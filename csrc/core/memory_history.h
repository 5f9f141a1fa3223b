// Who used which memory, as far as later work may still have to wait for it.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <map>
#include <vector>

#include "core/memory_extent.h"
#include "core/stream_clocks.h"

namespace torch_trainium {

// A tensor that an operator reads or writes.
struct TensorUse {
  uint32_t operator_id;
  uint32_t line;  // of the user's program; 0 is unknown
  bool is_written;
  const char* dtype;  // null for bare bytes
  c10::SmallVector<int64_t, 4> sizes;
  MemoryExtent extent;
};

struct PastUse {
  // Of the tensor that has the memory now, or of one that was freed since. What a
  // stream uses of a freed tensor that was allocated for another one is unguarded
  // unless it was recorded.
  enum class Owner : uint8_t { kTensor, kFreedTensor, kUnguardedFreedTensor };

  TensorUse use;
  StreamClocks::Point point;
  Owner owner = Owner::kTensor;
};

// The memory of one storage, or what is left of one that was freed.
struct MemoryRegion {
  const std::byte* begin;
  const std::byte* end;
  bool is_freed = false;
  // Of host memory: frees are not seen, so a region is worth as much as its storage.
  c10::weak_intrusive_ptr<c10::StorageImpl> host_storage{c10::intrusive_ptr<c10::StorageImpl>()};
  const void* host_storage_address = nullptr;
  c10::SmallVector<size_t, 2> recorded_streams;
  std::vector<PastUse> uses;

  // Enters a use that was found to be in order; what it makes irrelevant goes.
  void add(const StreamClocks& clocks, PastUse use);
};

class MemoryHistory {
 public:
  bool empty() const { return regions_.empty(); }

  // The region that holds a storage. A new one takes over the uses of freed memory.
  MemoryRegion& region_of(const timeline::Access& access);
  // The same, or null where there is none.
  MemoryRegion* find(const timeline::Access& access);

  void free(const StreamClocks& clocks, const std::byte* begin, size_t bytes, size_t owner);
  void erase(const std::byte* begin, const std::byte* end);
  // Forgets regions of which the host has awaited every use.
  void erase_past(const StreamClocks& clocks);

 private:
  using Regions = std::map<const std::byte*, MemoryRegion>;  // by begin; they do not overlap

  Regions::iterator first_overlapping(const std::byte* begin);
  // Cuts [begin, end) out of all regions; the uses of freed ones.
  std::vector<PastUse> cut(const std::byte* begin, const std::byte* end);

  Regions regions_;
};

}  // namespace torch_trainium
