#include "core/memory_history.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace torch_trainium {
namespace {

// Beyond this many uses of one storage, the oldest are forgotten.
constexpr size_t kMaxUses = 64;

bool belongs_to(const MemoryRegion& region, const timeline::Access& access) {
  return !region.is_freed && region.host_storage_address == access.host_storage &&
         (access.host_storage == nullptr || !region.host_storage.expired());
}

c10::weak_intrusive_ptr<c10::StorageImpl> weak_reference(const void* storage) {
  auto* address = static_cast<c10::StorageImpl*>(const_cast<void*>(storage));  // NOLINT
  return c10::weak_intrusive_ptr<c10::StorageImpl>(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(address));
}

}  // namespace

void MemoryRegion::add(const StreamClocks& clocks, PastUse use) {
  const MemoryExtent& extent = use.use.extent;
  const bool covers_all = extent.is_dense() && extent.begin <= begin && extent.end >= end;
  std::erase_if(uses, [&](const PastUse& past) {
    return (use.use.is_written || !past.use.is_written) &&
           clocks.is_after(use.point.stream, past.point) &&
           (covers_all || covers(extent, past.use.extent));
  });
  if (uses.size() == kMaxUses) uses.erase(uses.begin());
  uses.push_back(std::move(use));
}

MemoryHistory::Regions::iterator MemoryHistory::first_overlapping(const std::byte* begin) {
  const auto next = regions_.upper_bound(begin);
  if (next == regions_.begin()) return next;
  const auto previous = std::prev(next);
  return previous->second.end > begin ? previous : next;
}

MemoryRegion* MemoryHistory::find(const timeline::Access& access) {
  const auto region = first_overlapping(access.storage);
  const bool is_inside = region != regions_.end() && region->first <= access.storage &&
                         access.storage + access.storage_bytes <= region->second.end;
  return is_inside && belongs_to(region->second, access) ? &region->second : nullptr;
}

MemoryRegion& MemoryHistory::region_of(const timeline::Access& access) {
  if (MemoryRegion* known = find(access)) return *known;
  MemoryRegion region;
  region.begin = access.storage;
  region.end = access.storage + access.storage_bytes;
  region.uses = cut(access.storage, region.end);
  if (access.host_storage != nullptr) {
    region.host_storage = weak_reference(access.host_storage);
    region.host_storage_address = access.host_storage;
  }
  return regions_.emplace(access.storage, std::move(region)).first->second;
}

std::vector<PastUse> MemoryHistory::cut(const std::byte* begin, const std::byte* end) {
  std::vector<PastUse> uses;
  auto region = first_overlapping(begin);
  while (region != regions_.end() && region->first < end) {
    const MemoryRegion old = std::move(region->second);
    region = regions_.erase(region);
    if (!old.is_freed) continue;
    uses.insert(uses.end(), old.uses.begin(), old.uses.end());
    MemoryRegion rest;
    rest.is_freed = true;
    rest.uses = old.uses;
    if (old.begin < begin) {
      rest.begin = old.begin;
      rest.end = begin;
      regions_.emplace(rest.begin, rest);
    }
    if (end < old.end) {
      rest.begin = end;
      rest.end = old.end;
      regions_.emplace(rest.begin, rest);
    }
  }
  return uses;
}

void MemoryHistory::erase(const std::byte* begin, const std::byte* end) {
  auto region = first_overlapping(begin);
  while (region != regions_.end() && region->first < end) region = regions_.erase(region);
}

void MemoryHistory::free(const StreamClocks& clocks, const std::byte* begin, size_t bytes,
                         size_t owner) {
  auto entry = first_overlapping(begin);
  while (entry != regions_.end() && entry->first < begin + bytes) {
    MemoryRegion& region = entry->second;
    region.is_freed = true;
    std::erase_if(region.uses, [&](const PastUse& past) {
      const auto& recorded = region.recorded_streams;
      return clocks.host_is_after(past.point) ||
             std::find(recorded.begin(), recorded.end(), past.point.stream) != recorded.end();
    });
    region.recorded_streams.clear();
    for (PastUse& past : region.uses) {
      if (past.owner != PastUse::Owner::kTensor) continue;
      past.owner = past.point.stream == owner ? PastUse::Owner::kFreedTensor
                                              : PastUse::Owner::kUnguardedFreedTensor;
    }
    entry = region.uses.empty() ? regions_.erase(entry) : std::next(entry);
  }
}

void MemoryHistory::erase_past(const StreamClocks& clocks) {
  std::erase_if(regions_, [&](const auto& entry) {
    const auto& uses = entry.second.uses;
    return std::all_of(uses.begin(), uses.end(),
                       [&](const PastUse& past) { return clocks.host_is_after(past.point); });
  });
}

}  // namespace torch_trainium
