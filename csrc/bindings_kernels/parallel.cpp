#include "bindings_kernels/parallel.h"

#include <ATen/Parallel.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

#include "bindings_kernels/kernel_call.h"

// Only in builds of PyTorch with MKL.
extern "C" __attribute__((weak)) int MKL_Set_Num_Threads_Local(int threads);

namespace torch_trainium::kernels {
namespace {

// Keeps this thread's kernels from using others.
class SingleThreaded {
 public:
  SingleThreaded() {
    at::internal::lazy_init_num_threads();
    openmp_threads_ = omp_get_max_threads();
    omp_set_num_threads(1);
    if (MKL_Set_Num_Threads_Local != nullptr) mkl_threads_ = MKL_Set_Num_Threads_Local(1);
  }
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;
  ~SingleThreaded() {
    omp_set_num_threads(openmp_threads_);
    if (MKL_Set_Num_Threads_Local != nullptr) MKL_Set_Num_Threads_Local(mkl_threads_);
  }

 private:
  int openmp_threads_;
  int mkl_threads_ = 0;
};

class Parts {
 public:
  Parts(int64_t count, const std::function<void(int64_t)>& part) : count_(count), part_(part) {}

  // Works until no part is left. May be called after `wait` has returned.
  void work() {
    int64_t index = next_++;
    if (index >= count_) return;
    const PlainThread plain;
    const SingleThreaded single;
    for (; index < count_; index = next_++) {
      try {
        part_(index);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        error_ = std::current_exception();
      }
      finish_one();
    }
  }

  void wait() {
    std::unique_lock lock(mutex_);
    all_done_.wait(lock, [this] { return done_ == count_; });
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void finish_one() {
    const std::lock_guard lock(mutex_);
    if (++done_ == count_) all_done_.notify_all();
  }

  const int64_t count_;
  const std::function<void(int64_t)>& part_;
  std::atomic<int64_t> next_{0};
  std::mutex mutex_;
  std::condition_variable all_done_;
  int64_t done_ = 0;
  std::exception_ptr error_;
};

}  // namespace

void run_parts(ffi::ThreadPool& pool, int64_t count, const std::function<void(int64_t)>& part) {
  const auto parts = std::make_shared<Parts>(count, part);
  const int64_t others = std::min(count, pool.num_threads()) - 1;
  for (int64_t i = 0; i < others; ++i) pool.Schedule([parts] { parts->work(); });
  parts->work();
  parts->wait();
}

}  // namespace torch_trainium::kernels
