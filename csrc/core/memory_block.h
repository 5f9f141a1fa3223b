// A piece of a segment of device memory, free or handed out.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>
#include <c10/util/SmallVector.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace torch_trainium {

class BlockPool;

// What few blocks have: streams that used them, and where they were allocated.
struct BlockExtras {
  c10::SmallVector<c10::Stream, 2> streams;
  std::shared_ptr<c10::GatheredContext> context;
};

enum class BlockState : uint8_t { kFree, kAllocated, kAwaitingEvents };

struct Block {
  std::byte* address;
  size_t size;
  size_t requested_size;
  BlockPool* pool;
  Block* prev;  // neighbours in the segment, by address
  Block* next;
  Block* list_prev;  // neighbours in a list of free blocks
  Block* list_next;
  BlockExtras* extras;
  size_t resident_bytes;  // how much of a large block may have host memory behind it
  uint64_t freed_at;      // allocation count of the heap, for garbage collection
  uint32_t pending_events;
  BlockState state;

  std::byte* end() const { return address + size; }
  bool is_split() const { return prev != nullptr || next != nullptr; }
  bool is_free() const { return state == BlockState::kFree; }
};

// Recycles Block objects. Memory goes up to the highest number of blocks that
// existed at once and is kept.
class BlockSlab {
 public:
  Block* acquire() {
    if (free_ == nullptr) [[unlikely]] {
      add_chunk();
    }
    Block* block = free_;
    free_ = block->list_next;
    return block;
  }
  void recycle(Block* block) {
    block->list_next = free_;
    free_ = block;
  }

 private:
  static constexpr size_t kChunkBlocks = 256;

  [[gnu::noinline]] void add_chunk() {
    Block* chunk = chunks_.emplace_back(std::make_unique<Block[]>(kChunkBlocks)).get();
    for (size_t i = kChunkBlocks; i-- > 0;) {
      recycle(&chunk[i]);
    }
  }

  Block* free_ = nullptr;
  std::vector<std::unique_ptr<Block[]>> chunks_;
};

}  // namespace torch_trainium
