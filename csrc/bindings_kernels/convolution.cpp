#include <ATen/ops/bmm.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>

#include <algorithm>
#include <array>
#include <vector>

#include "bindings_kernels/handlers.h"
#include "bindings_kernels/kernel_call.h"
#include "bindings_kernels/parallel.h"

namespace torch_trainium::kernels {
namespace {

// How a kernel moves over an image, as PyTorch has it.
struct Geometry {
  ffi::Span<const int64_t> stride;
  ffi::Span<const int64_t> padding;
  ffi::Span<const int64_t> dilation;
  int64_t groups;
};

bool is_one_everywhere(ffi::Span<const int64_t> numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](int64_t n) { return n == 1; });
}

// Whether each pixel of the result depends on one of the image.
bool is_pointwise(const at::Tensor& image, const at::Tensor& kernel, const at::Tensor& result,
                  const Geometry& g) {
  return g.groups == 1 && is_one_everywhere(g.stride) &&
         kernel.numel() == kernel.size(0) * kernel.size(1) &&
         image.sizes().slice(2) == result.sizes().slice(2) && image.is_contiguous() &&
         kernel.is_contiguous();
}

void convolve(const at::Tensor& image, const at::Tensor& kernel, const at::Tensor& result,
              const Geometry& g) {
  if (is_pointwise(image, kernel, result, g)) {
    at::Tensor pixels = result.flatten(2);
    const at::Tensor matrix = kernel.flatten(1);
    at::bmm_out(pixels, matrix.expand({image.size(0), -1, -1}), image.flatten(2));
    return;
  }
  result.copy_(at::convolution(image, kernel, {}, ints(g.stride), ints(g.padding), ints(g.dilation),
                               /*transposed=*/false, std::vector<int64_t>(g.stride.size()),
                               g.groups));
}

// One of the gradients of `convolve`. Of what is differentiated only the shape counts.
template <size_t of>
at::Tensor gradient(const at::Tensor& cotangent, const at::Tensor& image, const at::Tensor& kernel,
                    const Geometry& g) {
  std::array<bool, 3> mask{};
  mask[of] = true;
  return std::get<of>(
      at::convolution_backward(cotangent, image, kernel, at::OptionalIntArrayRef(), ints(g.stride),
                               ints(g.padding), ints(g.dilation), /*transposed=*/false,
                               std::vector<int64_t>(g.stride.size()), g.groups, mask));
}

// A range of a dimension, one of `count` of about the same length.
struct Range {
  Range(int64_t length, int64_t index, int64_t count)
      : start(length * index / count), size(length * (index + 1) / count - start) {}

  at::Tensor of(const at::Tensor& tensor, int64_t dim) const {
    return tensor.narrow(dim, start, size);
  }

  int64_t start;
  int64_t size;
};

// Images apart, or the outputs of one image.
void forward(ffi::ThreadPool& pool, const at::Tensor& image, const at::Tensor& kernel,
             const at::Tensor& result, const Geometry& g) {
  const int64_t images = image.size(0);
  const bool by_outputs = images < pool.num_threads() && g.groups == 1;
  const int64_t length = by_outputs ? kernel.size(0) : images;
  const int64_t parts = std::min(length, pool.num_threads());
  run_parts(pool, parts, [&](int64_t i) {
    const Range range(length, i, parts);
    if (by_outputs) {
      convolve(image, range.of(kernel, 0), range.of(result, 1), g);
    } else {
      convolve(range.of(image, 0), kernel, range.of(result, 0), g);
    }
  });
}

void input_gradient(ffi::ThreadPool& pool, const at::Tensor& cotangent, const at::Tensor& kernel,
                    const at::Tensor& result, const Geometry& g) {
  const int64_t parts = std::min(result.size(0), pool.num_threads());
  run_parts(pool, parts, [&](int64_t i) {
    const Range range(result.size(0), i, parts);
    const at::Tensor image = range.of(result, 0);
    image.copy_(gradient<0>(range.of(cotangent, 0), image, kernel, g));
  });
}

// Partial sums over images, added up in their order.
void kernel_gradient(ffi::ThreadPool& pool, const at::Tensor& image, const at::Tensor& cotangent,
                     const at::Tensor& result, const Geometry& g) {
  const int64_t parts = std::min(image.size(0), pool.num_threads());
  std::vector<at::Tensor> sums(parts);
  run_parts(pool, parts, [&](int64_t i) {
    const Range range(image.size(0), i, parts);
    sums[i] = gradient<1>(range.of(cotangent, 0), range.of(image, 0), result, g);
  });
  result.copy_(sums[0]);
  for (int64_t i = 1; i < parts; ++i) result.add_(sums[i]);
}

// An operand in the dtype that the result is computed in.
at::Tensor operand(ffi::AnyBuffer buffer, const Window& window, const at::Tensor& result) {
  return tensor_in(buffer, window).to(result.scalar_type());
}

using Kernel = void (*)(ffi::ThreadPool&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                        const Geometry&);

template <Kernel kernel>
ffi::Error handle(ffi::ThreadPool pool, ffi::AnyBuffer a, ffi::AnyBuffer b,
                  ffi::Result<ffi::AnyBuffer> result, Window window_a, Window window_b,
                  ffi::Span<const int64_t> stride, ffi::Span<const int64_t> padding,
                  ffi::Span<const int64_t> dilation, int64_t groups) {
  return run("convolution", [&] {
    const at::Tensor out = tensor_of(*result);
    kernel(pool, operand(a, window_a, out), operand(b, window_b, out), out,
           {stride, padding, dilation, groups});
  });
}

auto binding() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .Ret<ffi::AnyBuffer>()
      .Attr<Window>("a")
      .Attr<Window>("b")
      .Attr<ffi::Span<const int64_t>>("stride")
      .Attr<ffi::Span<const int64_t>>("padding")
      .Attr<ffi::Span<const int64_t>>("dilation")
      .Attr<int64_t>("groups");
}

XLA_FFI_DEFINE_HANDLER(handle_forward, handle<forward>, binding());
XLA_FFI_DEFINE_HANDLER(handle_input_gradient, handle<input_gradient>, binding());
XLA_FFI_DEFINE_HANDLER(handle_kernel_gradient, handle<kernel_gradient>, binding());

}  // namespace

void* convolution_handler() { return reinterpret_cast<void*>(handle_forward); }
void* convolution_input_gradient_handler() {
  return reinterpret_cast<void*>(handle_input_gradient);
}
void* convolution_kernel_gradient_handler() {
  return reinterpret_cast<void*>(handle_kernel_gradient);
}

}  // namespace torch_trainium::kernels
