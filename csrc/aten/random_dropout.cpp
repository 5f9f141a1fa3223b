// Dropout and the randomized leaky rectifier.
#define AT_PER_OPERATOR_HEADERS
#include <ATen/Dispatch.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/ones_like.h>
#include <torch/library.h>

#include "aten/random_fill.h"

namespace torch_trainium {
namespace {

using Generator = std::optional<at::Generator>;
using threefry::Key;

template <typename scalar_t>
void drop(const at::Tensor& host_input, const at::Tensor& host_out, const at::Tensor& host_mask,
          double keep, double scale, RandomStream stream) {
  using real_t = RandomReal<scalar_t>;
  const Elements<const scalar_t> input(host_input);
  const Elements<scalar_t> out(host_out);
  const Elements<bool> mask(host_mask);
  const Key key(stream.seed);
  const uint64_t threshold = bernoulli_threshold(keep);
  const auto factor = static_cast<real_t>(scale);
  for_each_tile(host_input.numel(), [&](int64_t first, int64_t count) {
    Tile<uint32_t> words;
    Tile<uint8_t> kept;
    Tile<real_t> values;
    draw(key, stream.offset + static_cast<uint64_t>(first), words);
    input.load(first, count, values);
    // A product, as in PyTorch: a dropped NaN or infinity stays NaN.
    for (int64_t i = 0; i < count; ++i) {
      kept[i] = words[i] < threshold;
      values[i] = values[i] * static_cast<real_t>(kept[i]) * factor;
    }
    mask.store(first, count, kept);
    out.store(first, count, values);
  });
}

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p,
                                                  std::optional<bool> train) {
  static OperatorRecord& record = operator_record("aten::native_dropout");
  const at::TensorOptions mask_options = input.options().dtype(at::kBool);
  if (input.numel() == 0 || !train.value_or(true))
    return {input.clone(), at::ones_like(input, mask_options)};
  TORCH_CHECK(0 <= p && p <= 1, "native_dropout expects p to be in [0, 1], but got p=", p);
  const double keep = 1 - p;
  const double scale = keep == 0 ? 0 : 1 / keep;
  const at::Tensor mask = at::empty_like(input, mask_options);
  if (!at::isFloatingType(input.scalar_type())) {
    mask.bernoulli_(keep);
    return {input.mul(mask).mul_(scale), mask};
  }
  const at::Tensor out = at::empty_like(input);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, input.scalar_type(), "native_dropout", [&] {
        const RandomStream stream = reserve_random(record, std::nullopt, input, input.numel());
        note_call(record, input);
        HostCall call(record, input.device().index());
        const at::Tensor host_input = call.alias(input);
        const at::Tensor host_out = call.alias_written(out);
        const at::Tensor host_mask = call.alias_written(mask);
        call.run([&] { drop<scalar_t>(host_input, host_out, host_mask, keep, scale, stream); });
      });
  return {out, mask};
}

template <typename scalar_t>
void rectify(const at::Tensor& host_input, const at::Tensor& host_noise, const at::Tensor& host_out,
             double lower, double upper, RandomStream stream) {
  using real_t = RandomReal<scalar_t>;
  const Elements<const scalar_t> input(host_input);
  const Elements<scalar_t> noise(host_noise);
  const Elements<scalar_t> out(host_out);
  const Key key(stream.seed);
  const auto low = static_cast<real_t>(lower);
  const auto range = static_cast<real_t>(upper - lower);
  for_each_tile(host_input.numel(), [&](int64_t first, int64_t count) {
    Tile<RandomWord<scalar_t>> words;
    Tile<real_t> slopes;
    Tile<real_t> values;
    draw(key, stream.offset + static_cast<uint64_t>(first), words);
    to_unit(words, slopes);
    input.load(first, count, values);
    for (int64_t i = 0; i < count; ++i) {
      slopes[i] = values[i] <= 0 ? slopes[i] * range + low : real_t{1};
      values[i] = values[i] * slopes[i];
    }
    noise.store(first, count, slopes);
    out.store(first, count, values);
  });
}

at::Tensor& rrelu_with_noise_out(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower,
                                 const at::Scalar& upper, bool training, Generator generator,
                                 at::Tensor& out) {
  static OperatorRecord& record = operator_record("aten::rrelu_with_noise");
  TORCH_CHECK(self.sizes() == noise.sizes(),
              "noise tensor shape must match self tensor shape. Got self.shape = ", self.sizes(),
              " noise.shape = ", noise.sizes());
  const auto low = lower.toDouble();
  const auto high = upper.toDouble();
  if (!training) return at::leaky_relu_out(out, self, (low + high) / 2);
  TORCH_CHECK(low <= high, "rrelu_with_noise expects lower <= upper, but got lower=", low,
              " and upper=", high);
  TORCH_CHECK(noise.scalar_type() == self.scalar_type() && out.scalar_type() == self.scalar_type(),
              "rrelu_with_noise expects noise and out of dtype ", self.scalar_type(), ", but got ",
              noise.scalar_type(), " and ", out.scalar_type());
  at::native::resize_output(out, self.sizes());
  at::assert_no_internal_overlap(out);
  at::assert_no_internal_overlap(noise);
  at::assert_no_partial_overlap(out, self);
  at::assert_no_overlap(noise, self);
  at::assert_no_overlap(noise, out);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, self.scalar_type(), "rrelu_with_noise", [&] {
        const RandomStream stream = reserve_random(record, generator, self, self.numel());
        note_call(record, self, noise);
        HostCall call(record, self.device().index());
        const at::Tensor host_self = call.alias(self);
        const at::Tensor host_noise = call.alias_written(noise);
        const at::Tensor host_out = call.alias_written(out);
        call.run([&] { rectify<scalar_t>(host_self, host_noise, host_out, low, high, stream); });
      });
  return out;
}

at::Tensor rrelu_with_noise(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower,
                            const at::Scalar& upper, bool training, Generator generator) {
  at::Tensor out = at::empty_like(self, at::MemoryFormat::Contiguous);
  return rrelu_with_noise_out(self, noise, lower, upper, training, generator, out);
}

at::Tensor& rrelu_with_noise_(at::Tensor& self, at::Tensor& noise, const at::Scalar& lower,
                              const at::Scalar& upper, bool training, Generator generator) {
  return rrelu_with_noise_out(self, noise, lower, upper, training, generator, self);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_dropout", TORCH_FN(native_dropout));
  m.impl("rrelu_with_noise", TORCH_FN(rrelu_with_noise));
  m.impl("rrelu_with_noise.out", TORCH_FN(rrelu_with_noise_out));
  m.impl("rrelu_with_noise_", TORCH_FN(rrelu_with_noise_));
}

}  // namespace
}  // namespace torch_trainium
