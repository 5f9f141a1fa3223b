// The allocator's statistics, laid out so that an allocation touches few lines.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace torch_trainium {

enum Metric : size_t {
  kAllocation,
  kAllocatedBytes,
  kActive,
  kActiveBytes,
  kRequestedBytes,
  kInactiveSplit,
  kInactiveSplitBytes,
  kSegment,
  kReservedBytes,
  kMetrics
};

class MemoryCounters {
 public:
  void increase(bool small, Metric metric, size_t amount) {
    kinds_[small].current[metric] += static_cast<int64_t>(amount);
    kinds_[small].allocated[metric] += static_cast<int64_t>(amount);
  }
  void decrease(bool small, Metric metric, size_t amount) {
    kinds_[small].current[metric] -= static_cast<int64_t>(amount);
  }

  void add_allocation(bool small, size_t bytes, size_t requested) {
    increase(small, kAllocation, 1);
    increase(small, kAllocatedBytes, bytes);
    increase(small, kActive, 1);
    increase(small, kActiveBytes, bytes);
    increase(small, kRequestedBytes, requested);
  }

  // Lets the peaks of the metrics in [first, last) follow their current values.
  template <size_t first, size_t last>
  void raise_peaks(bool small) {
    Kind& kind = kinds_[small];
    const Kind& other = kinds_[!small];
#pragma GCC unroll 16
    for (size_t m = first; m < last; ++m) {
      const int64_t now = kind.current[m];
      const int64_t total = now + other.current[m];
      if (now > kind.peak[m]) [[unlikely]] {
        kind.peak[m] = now;
      }
      if (total > peak_[m]) [[unlikely]] {
        peak_[m] = total;
      }
    }
  }

  int64_t current(bool small, Metric metric) const { return kinds_[small].current[metric]; }

  int64_t current(Metric metric) const {
    return kinds_[0].current[metric] + kinds_[1].current[metric];
  }

  void reset_peak() {
    for (size_t m = 0; m < kMetrics; ++m) {
      kinds_[0].peak[m] = kinds_[0].current[m];
      kinds_[1].peak[m] = kinds_[1].current[m];
      peak_[m] = current(static_cast<Metric>(m));
    }
  }

  void reset_accumulated() {
    for (Kind& kind : kinds_) {
      kind.current_at_reset = kind.current;
      kind.allocated.fill(0);
    }
  }

  c10::CachingAllocator::StatArray stat(Metric metric) const {
    const auto of_kind = [&](const Kind& kind) {
      c10::CachingAllocator::Stat stat;
      stat.current = kind.current[metric];
      stat.peak = kind.peak[metric];
      stat.allocated = kind.allocated[metric];
      stat.freed = kind.current_at_reset[metric] + stat.allocated - stat.current;
      return stat;
    };
    const auto large = of_kind(kinds_[0]);
    const auto small = of_kind(kinds_[1]);
    c10::CachingAllocator::Stat all;
    all.current = small.current + large.current;
    all.peak = peak_[metric];
    all.allocated = small.allocated + large.allocated;
    all.freed = small.freed + large.freed;
    return {all, small, large};
  }

 private:
  using Values = std::array<int64_t, kMetrics>;
  struct Kind {
    Values current{};
    Values allocated{};
    Values peak{};
    Values current_at_reset{};
  };
  std::array<Kind, 2> kinds_;  // large, small
  Values peak_{};              // of both kinds together
};

}  // namespace torch_trainium
