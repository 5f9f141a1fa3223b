// Work of a kernel on the threads of XLA's pool.
#pragma once

#include <cstdint>
#include <functional>

#include "xla/ffi/api/ffi.h"

namespace torch_trainium::kernels {

// Calls `part` for 0 to count - 1, each once, from the calling thread and the pool's, and returns
// when all are done. What a part throws is thrown again. PyTorch's kernels use one thread each in
// there: a team of OpenMP's would keep the pool's cores busy, waiting for its next work.
void run_parts(xla::ffi::ThreadPool& pool, int64_t count, const std::function<void(int64_t)>& part);

}  // namespace torch_trainium::kernels
