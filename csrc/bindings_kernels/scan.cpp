#include <ATen/ops/cumprod.h>
#include <ATen/ops/cumsum.h>

#include <algorithm>

#include "bindings_kernels/handlers.h"
#include "bindings_kernels/kernel_call.h"
#include "bindings_kernels/parallel.h"

namespace torch_trainium::kernels {
namespace {

// Elements that are worth a thread's attention.
constexpr int64_t kMinElements = 1 << 13;

using Scan = at::Tensor& (*)(at::Tensor&, const at::Tensor&, int64_t,
                             std::optional<at::ScalarType>);

// The longest dimension but one, along which nothing depends on anything; -1 where there is none.
int64_t independent_dim(const at::Tensor& tensor, int64_t dim) {
  int64_t longest = -1;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (d != dim && (longest < 0 || tensor.size(d) > tensor.size(longest))) longest = d;
  }
  return longest;
}

template <Scan scan>
ffi::Error handle(ffi::ThreadPool pool, ffi::AnyBuffer a, ffi::Result<ffi::AnyBuffer> result,
                  Window window, int64_t dim) {
  return run("cumulative fold", [&] {
    const at::Tensor from = tensor_in(a, window);
    at::Tensor to = tensor_of(*result);
    const int64_t apart = independent_dim(to, dim);
    const int64_t length = apart < 0 ? 1 : to.size(apart);
    const int64_t parts = std::min({length, pool.num_threads(), 1 + to.numel() / kMinElements});
    run_parts(pool, parts, [&](int64_t i) {
      const int64_t start = length * i / parts;
      const int64_t size = length * (i + 1) / parts - start;
      at::Tensor part = apart < 0 ? to : to.narrow(apart, start, size);
      scan(part, apart < 0 ? from : from.narrow(apart, start, size), dim, to.scalar_type());
    });
  });
}

auto binding() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<ffi::AnyBuffer>()
      .Ret<ffi::AnyBuffer>()
      .Attr<Window>("a")
      .Attr<int64_t>("dim");
}

XLA_FFI_DEFINE_HANDLER(handle_sum, handle<at::cumsum_out>, binding());
XLA_FFI_DEFINE_HANDLER(handle_product, handle<at::cumprod_out>, binding());

}  // namespace

void* cumulative_sum_handler() { return reinterpret_cast<void*>(handle_sum); }
void* cumulative_product_handler() { return reinterpret_cast<void*>(handle_product); }

}  // namespace torch_trainium::kernels
