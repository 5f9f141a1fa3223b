// A mutex for sections of tens of nanoseconds.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace torch_trainium {

// One locked instruction per lock/unlock pair, where std::mutex needs two. Waiting
// threads spin, then yield, then sleep, so a preempted holder costs no core.
class SpinLock {
 public:
  void lock() noexcept {
    if (held_.exchange(true, std::memory_order_acquire)) [[unlikely]] {
      wait_and_lock();
    }
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpins = 64;
  static constexpr int kYields = 256;

  [[gnu::noinline]] void wait_and_lock() noexcept {
    int attempts = 0;
    do {
      while (held_.load(std::memory_order_relaxed)) {
        ++attempts;
        if (attempts < kSpins) {
#if defined(__x86_64__)
          __builtin_ia32_pause();
#endif
        } else if (attempts < kYields) {
          std::this_thread::yield();
        } else {
          std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
      }
    } while (held_.exchange(true, std::memory_order_acquire));
  }

  std::atomic<bool> held_{false};
};

}  // namespace torch_trainium
