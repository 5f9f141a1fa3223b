#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <vector>

#include "bindings_kernels/handlers.h"
#include "bindings_kernels/kernel_call.h"
#include "bindings_kernels/parallel.h"

namespace torch_trainium::kernels {
namespace {

// Multiplications that are worth a thread's attention.
constexpr int64_t kMinProducts = 1 << 20;
// For each thread, so that one that is late leaves its work to others.
constexpr int64_t kPartsPerThread = 2;

struct Product {
  at::Tensor a;
  at::Tensor b;
  at::Tensor result;

  void compute() {
    if (a.dim() == 2) {
      at::mm_out(result, a, b);
    } else {
      at::bmm_out(result, a, b);
    }
  }
};

// Appends the product as products of matrices, or batches of them, of at most `most`
// multiplications where rows allow.
void split(const Product& whole, int64_t most, std::vector<Product>& parts) {
  const auto [a, b, result] = whole;
  const int64_t length = a.size(0);
  const int64_t products = result.numel() * a.size(-1);
  if (a.dim() > 3) {
    for (int64_t i = 0; i < length; ++i) {
      split({a.select(0, i), b.select(0, i), result.select(0, i)}, most, parts);
    }
    return;
  }
  const int64_t pieces = std::min(length, (products + most - 1) / most);
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t start = length * i / pieces;
    const int64_t count = length * (i + 1) / pieces - start;
    parts.push_back({a.narrow(0, start, count), a.dim() == 3 ? b.narrow(0, start, count) : b,
                     result.narrow(0, start, count)});
  }
}

ffi::Error dot(ffi::ThreadPool pool, ffi::AnyBuffer a, ffi::AnyBuffer b,
               ffi::Result<ffi::AnyBuffer> result, Window window_a, Window window_b,
               Window window_result) {
  return run("dot_general", [&] {
    const Product whole{tensor_in(a, window_a), tensor_in(b, window_b),
                        tensor_in(*result, window_result)};
    const int64_t products = whole.result.numel() * whole.a.size(-1);
    std::vector<Product> parts;
    split(whole, std::max(kMinProducts, products / (pool.num_threads() * kPartsPerThread)), parts);
    run_parts(pool, static_cast<int64_t>(parts.size()), [&](int64_t i) { parts[i].compute(); });
  });
}

XLA_FFI_DEFINE_HANDLER(handle_dot, dot,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<ffi::AnyBuffer>()
                           .Ret<ffi::AnyBuffer>()
                           .Attr<Window>("a")
                           .Attr<Window>("b")
                           .Attr<Window>("result"));

}  // namespace

void* dot_handler() { return reinterpret_cast<void*>(handle_dot); }

}  // namespace torch_trainium::kernels
