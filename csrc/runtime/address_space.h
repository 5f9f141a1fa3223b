// Free ranges of one device's address range, handed out lowest address first.
#pragma once

#include <cstddef>
#include <iterator>
#include <map>
#include <optional>

namespace torch_trainium::runtime {

class AddressSpace {
 public:
  explicit AddressSpace(size_t size) { free_[0] = size; }

  // Offset of the lowest free run of at least `size` bytes.
  std::optional<size_t> take(size_t size) {
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      if (range->second < size) continue;
      const auto [offset, length] = *range;
      free_.erase(range);
      if (length > size) free_[offset + size] = length - size;
      return offset;
    }
    return std::nullopt;
  }

  void give_back(size_t offset, size_t size) {
    auto next = free_.lower_bound(offset);
    if (next != free_.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        size += previous->second;
        free_.erase(previous);
      }
    }
    if (next != free_.end() && offset + size == next->first) {
      size += next->second;
      free_.erase(next);
    }
    free_[offset] = size;
  }

 private:
  std::map<size_t, size_t> free_;  // offset to length; neighbours are merged
};

}  // namespace torch_trainium::runtime
