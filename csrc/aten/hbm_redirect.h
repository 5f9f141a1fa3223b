// During a host call the calling thread's CPU allocations come from HBM.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/SmallVector.h>

namespace torch_trainium {

// What one thread allocated from `device` since construction. While alive it
// stands in front of the CPU allocator on its thread; calls nest.
class HbmRedirect {
 public:
  explicit HbmRedirect(c10::DeviceIndex device, ptrdiff_t host_offset);
  ~HbmRedirect();
  HbmRedirect(const HbmRedirect&) = delete;
  HbmRedirect& operator=(const HbmRedirect&) = delete;

  // The device allocation behind a host address handed out meanwhile, no longer
  // owned by it; a null pointer if there is none.
  c10::DataPtr take(const void* host_address);

  // Visits all allocations not taken or freed yet: the results, once the kernel has run.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const Entry& entry : entries_) visit(entry.host_address, entry.bytes);
  }
  // Of all these together.
  size_t bytes() const;

 private:
  friend class HbmRedirectingAllocator;
  struct Entry {
    void* host_address;
    size_t bytes;
    c10::DataPtr device_data;
  };
  static void release(void* host_address);
  Entry* find(const void* host_address);
  void remove(Entry* entry);

  const c10::DeviceIndex device_;
  const ptrdiff_t host_offset_;
  HbmRedirect* const outer_;
  size_t cursor_ = 0;  // results are taken in the order they were allocated
  c10::SmallVector<Entry, 4> entries_;
};

// While alive, this thread's CPU allocations come from host memory again.
class HostAllocations {
 public:
  HostAllocations();
  ~HostAllocations();
  HostAllocations(const HostAllocations&) = delete;
  HostAllocations& operator=(const HostAllocations&) = delete;

 private:
  HbmRedirect* const suspended_;
};

}  // namespace torch_trainium
