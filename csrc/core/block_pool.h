// The free blocks of one arena and size kind, with best fit.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <set>

#include "core/memory_block.h"

namespace torch_trainium {

inline constexpr size_t kMinBlockBytes = 512;
inline constexpr size_t kSmallBytes = size_t{1} << 20;
inline constexpr size_t kSmallSegmentBytes = size_t{2} << 20;
inline constexpr size_t kMinLargeAllocBytes = size_t{10} << 20;
inline constexpr size_t kRoundLargeBytes = size_t{2} << 20;

inline constexpr c10::MempoolId_t kDefaultPool{0, 0};

class DeviceHeap;
struct Arena;

// One list per multiple of 512 bytes up to 1 MiB and one for anything above,
// found through a two-level bitmap. Lists are LIFO: what was freed last is in
// the cache.
class SmallBins {
 public:
  void insert(Block* block) {
    const size_t bin = bin_of(block->size);
    Block* head = heads_[bin];
    block->list_prev = nullptr;
    block->list_next = head;
    if (head != nullptr) {
      head->list_prev = block;
    }
    heads_[bin] = block;
    words_[bin / 64] |= uint64_t{1} << (bin % 64);
    summary_ |= uint64_t{1} << (bin / 64);
  }

  void erase(Block* block) {
    if (block->list_next != nullptr) {
      block->list_next->list_prev = block->list_prev;
    }
    if (block->list_prev != nullptr) {
      block->list_prev->list_next = block->list_next;
      return;
    }
    const size_t bin = bin_of(block->size);
    heads_[bin] = block->list_next;
    if (block->list_next == nullptr) {
      words_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
      if (words_[bin / 64] == 0) {
        summary_ &= ~(uint64_t{1} << (bin / 64));
      }
    }
  }

  // The smallest block of at least `size` <= 1 MiB bytes, or null.
  Block* find(size_t size) const {
    const size_t bin = bin_of(size);
    size_t word = bin / 64;
    uint64_t bits = words_[word] & (~uint64_t{0} << (bin % 64));
    if (bits == 0) {
      const uint64_t above = summary_ & (~uint64_t{0} << (word + 1));
      if (above == 0) {
        return nullptr;
      }
      word = static_cast<size_t>(std::countr_zero(above));
      bits = words_[word];
    }
    return heads_[word * 64 + static_cast<size_t>(std::countr_zero(bits))];
  }

  static size_t bin_of(size_t size) {
    const size_t bin = size / kMinBlockBytes - 1;
    return bin < kBins - 1 ? bin : kBins - 1;
  }

 private:
  static constexpr size_t kBins = kSmallBytes / kMinBlockBytes + 1;
  static constexpr size_t kWords = (kBins + 63) / 64;

  uint64_t summary_ = 0;
  std::array<uint64_t, kWords> words_{};
  std::array<Block*, kBins> heads_{};
};

struct SmallerThenLower {
  using is_transparent = void;
  bool operator()(const Block* a, const Block* b) const {
    return a->size != b->size ? a->size < b->size : a->address < b->address;
  }
  bool operator()(const Block* a, size_t size) const { return a->size < size; }
};

class BlockPool {
 public:
  // `whole`: never to cut blocks.
  BlockPool(Arena& arena, bool small, bool whole) : arena_(arena), small_(small), whole_(whole) {}

  Arena& arena() const { return arena_; }
  bool is_small() const { return small_; }
  // Whether a block of `size` bytes is one that max_split_size keeps whole.
  bool is_oversize(size_t size) const { return !small_ && !may_cut(size); }

  // Best fit; among equals of the large kind the lowest address, so that pages
  // already in use are used again. The block stays in the pool.
  Block* find(size_t size) const { return small_ ? bins_.find(size) : find_large(size); }

  void insert(Block* block) {
    if (small_) {
      bins_.insert(block);
    } else {
      tree_.insert(block);
    }
  }

  void erase(Block* block) {
    if (small_) {
      bins_.erase(block);
    } else {
      tree_.erase(block);
    }
  }

  // Moves the start of a block of this pool, keeping its end.
  void move_start(Block* block, std::byte* address) {
    const size_t size = static_cast<size_t>(block->end() - address);
    if (small_ && SmallBins::bin_of(block->size) == SmallBins::bin_of(size)) {
      block->address = address;
      block->size = size;
      return;
    }
    erase(block);
    block->address = address;
    block->size = size;
    insert(block);
  }

  // The free blocks of a large pool.
  const std::set<Block*, SmallerThenLower>& large_blocks() const { return tree_; }

  // Whether an allocation of `size` bytes leaves the rest of `block` to others.
  bool splits(const Block& block, size_t size) const {
    const size_t rest = block.size - size;
    return !whole_ && (small_ ? rest >= kMinBlockBytes : rest > kSmallBytes && may_cut(size));
  }

 private:
  static bool may_cut(size_t size);
  Block* find_large(size_t size) const;

  Arena& arena_;
  const bool small_;
  const bool whole_;
  SmallBins bins_;
  std::set<Block*, SmallerThenLower> tree_;
};

// A memory pool of the user's: allocations routed to it share no segment with others.
struct PrivatePool {
  c10::MempoolId_t id;
  int use_count = 0;
  bool use_on_oom = false;
  bool no_split = false;
};

// Where allocations of one stream and memory pool come from.
struct Arena {
  Arena(DeviceHeap& heap, int64_t stream, PrivatePool* owner)
      : heap(heap), stream(stream), owner(owner) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  c10::MempoolId_t pool_id() const { return owner ? owner->id : kDefaultPool; }
  bool is_orphaned() const { return owner != nullptr && owner->use_count == 0; }

  DeviceHeap& heap;
  const int64_t stream;
  PrivatePool* const owner;  // null for the default memory pool
  size_t segment_count = 0;
  BlockPool small{*this, true, owner != nullptr && owner->no_split};
  BlockPool large{*this, false, owner != nullptr && owner->no_split};
};

}  // namespace torch_trainium
