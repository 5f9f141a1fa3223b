// Distributions by rejection, which draw an unknown number of words: each element
// draws from the substream of its position (core/threefry.h).
#define AT_PER_OPERATOR_HEADERS
#include <ATen/Dispatch.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/Distributions.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "aten/random_fill.h"

namespace torch_trainium {
namespace {

using Generator = std::optional<at::Generator>;
using threefry::Key;

double draw_normal(Substream& words) {
  const double radius = std::sqrt(-2 * std::log(open_unit_double(words.next64())));
  return radius * std::cos(2 * std::numbers::pi * unit_double(words.next64()));
}

double draw_gamma(double alpha, Substream words) {
  const auto uniform = [&words] { return unit_double(words.next64()); };
  const auto normal = [&words] { return draw_normal(words); };
  BaseSampler<double, decltype(uniform)> uniform_sampler(uniform);
  BaseSampler<double, decltype(normal)> normal_sampler(normal);
  return sample_gamma<double, double>(alpha, uniform_sampler, normal_sampler);
}

double draw_binomial(double count, double p, Substream words) {
  const auto uniform = [&words] { return open_unit_double(words.next64()); };
  BaseSampler<double, decltype(uniform)> sampler(uniform);
  return sample_binomial<double, double>(count, p, sampler);
}

// Counts exponential arrivals in a unit of time, as a product of uniform numbers.
double count_arrivals(double rate, Substream& words) {
  const double end = std::exp(-rate);
  double count = 0;
  for (double product = open_unit_double(words.next64()); product > end; ++count) {
    product *= open_unit_double(words.next64());
  }
  return count;
}

// Algorithm PTRS of Hormann, "The transformed rejection method for generating
// Poisson random variables" (1993), for rates from 10 on; the names are the
// paper's.
double reject_transformed(double rate, Substream& words) {
  const double b = 0.931 + 2.53 * std::sqrt(rate);
  const double a = -0.059 + 0.02483 * b;
  const double v_r = 0.9277 - 3.6224 / (b - 2);
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  for (;;) {
    const double u = open_unit_double(words.next64()) - 0.5;
    const double v = open_unit_double(words.next64());
    const double u_s = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / u_s + b) * u + rate + 0.43);
    if (u_s >= 0.07 && v <= v_r) return k;
    if (k < 0 || (u_s < 0.013 && v > u_s)) continue;
    const double hat = std::log(v * inverse_alpha / (a / (u_s * u_s) + b));
    if (hat <= k * std::log(rate) - rate - std::lgamma(k + 1)) return k;
  }
}

double draw_poisson(double rate, Substream words) {
  TORCH_CHECK(rate >= 0, "invalid Poisson rate, expected rate to be non-negative");
  // There the spacing of doubles exceeds the standard deviation.
  constexpr double kDegenerate = 0x1p106;
  if (rate == 0 || rate > kDegenerate) return rate;
  return rate < 10 ? count_arrivals(rate, words) : reject_transformed(rate, words);
}

// Fills `host_out` with sample(substream, element of `host_in`).
template <typename in_t, typename out_t, typename Sample>
void map_substreams(const at::Tensor& host_in, const at::Tensor& host_out, RandomStream stream,
                    const Sample& sample) {
  const Elements<const in_t> parameters(host_in);
  const Elements<out_t> results(host_out);
  const Key key(stream.seed);
  for_each_tile(host_out.numel(), [&](int64_t first, int64_t count) {
    Substreams substreams;
    Tile<double> values;
    draw(key, stream.offset + static_cast<uint64_t>(first), substreams);
    parameters.load(first, count, values);
    for (int64_t i = 0; i < count; ++i) values[i] = sample(Substream(substreams, i), values[i]);
    results.store(first, count, values);
  });
}

template <typename scalar_t, typename Sample>
void map_random(OperatorRecord& record, const at::Tensor& self, const at::Tensor& out,
                const Generator& generator, const Sample& sample) {
  const RandomStream stream = reserve_random(record, generator, self, self.numel());
  note_call(record, self);
  HostCall call(record, self.device().index());
  const at::Tensor host_self = call.alias(self);
  const at::Tensor host_out = call.alias_written(out);
  call.run([&] { map_substreams<scalar_t, scalar_t>(host_self, host_out, stream, sample); });
}

at::Tensor poisson(const at::Tensor& self, Generator generator) {
  static OperatorRecord& record = operator_record("aten::poisson");
  const at::Tensor out = at::empty(self.sizes(), self.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, self.scalar_type(), "poisson", [&] {
    map_random<scalar_t>(record, self, out, generator,
                         [](Substream words, double rate) { return draw_poisson(rate, words); });
  });
  return out;
}

at::Tensor standard_gamma(const at::Tensor& self, Generator generator) {
  static OperatorRecord& record = operator_record("aten::_standard_gamma");
  const at::Tensor out = at::empty(self.sizes(), self.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, self.scalar_type(), "_standard_gamma", [&] {
        const double smallest = std::numeric_limits<scalar_t>::min();
        map_random<scalar_t>(record, self, out, generator, [=](Substream words, double alpha) {
          return std::max(draw_gamma(alpha, words), smallest);
        });
      });
  return out;
}

at::Tensor binomial(const at::Tensor& count, const at::Tensor& prob, Generator generator) {
  static OperatorRecord& record = operator_record("aten::binomial");
  TORCH_CHECK_VALUE(
      at::isFloatingType(count.scalar_type()),
      "binomial only supports floating-point dtypes for count, got: ", count.scalar_type());
  TORCH_CHECK_VALUE(
      at::isFloatingType(prob.scalar_type()),
      "binomial only supports floating-point dtypes for prob, got: ", prob.scalar_type());
  TORCH_CHECK(count.scalar_type() == prob.scalar_type(), "Found dtype ", prob.scalar_type(),
              " but expected ", count.scalar_type());
  TORCH_CHECK(count.device() == prob.device(),
              "Expected all tensors to be on the same device, but found at least two devices, ",
              count.device(), " and ", prob.device(), "!");
  const auto sizes = at::infer_size(count.sizes(), prob.sizes());
  const at::Tensor all_counts = count.expand(sizes);
  const at::Tensor all_probs = prob.expand(sizes);
  const at::Tensor out = at::empty(sizes, count.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, count.scalar_type(), "binomial", [&] {
    const RandomStream stream = reserve_random(record, generator, out, out.numel());
    note_call(record, count, prob);
    HostCall call(record, out.device().index());
    const at::Tensor host_counts = call.alias(all_counts);
    const at::Tensor host_probs = call.alias(all_probs);
    const at::Tensor host_out = call.alias_written(out);
    call.run([&] {
      const Elements<const scalar_t> counts(host_counts);
      const Elements<const scalar_t> probs(host_probs);
      const Elements<scalar_t> results(host_out);
      const Key key(stream.seed);
      for_each_tile(host_out.numel(), [&](int64_t first, int64_t length) {
        Substreams substreams;
        Tile<double> values;
        Tile<double> p;
        draw(key, stream.offset + static_cast<uint64_t>(first), substreams);
        counts.load(first, length, values);
        probs.load(first, length, p);
        for (int64_t i = 0; i < length; ++i) {
          values[i] = draw_binomial(values[i], p[i], Substream(substreams, i));
        }
        results.store(first, length, values);
      });
    });
  });
  return out;
}

// Gamma variates divided by the sum of their row, kept inside (0, 1).
template <typename scalar_t>
void fill_dirichlet(const at::Tensor& host_alpha, const at::Tensor& host_out, RandomStream stream) {
  const at::Tensor gamma = at::empty(host_alpha.sizes(), host_alpha.options().dtype(at::kDouble));
  map_substreams<scalar_t, double>(host_alpha, gamma, stream, [](Substream words, double alpha) {
    return std::max(draw_gamma(alpha, words), std::numeric_limits<double>::min());
  });
  const int64_t row_size = gamma.dim() == 0 ? 1 : gamma.size(-1);
  const double* variates = gamma.const_data_ptr<double>();
  auto* results = host_out.mutable_data_ptr<scalar_t>();
  constexpr scalar_t kSmallest = std::numeric_limits<scalar_t>::min();
  const scalar_t largest = std::nexttoward(scalar_t{1}, 0.0L);
  for (int64_t row = 0; row < gamma.numel(); row += row_size) {
    const double sum = std::accumulate(variates + row, variates + row + row_size, 0.0);
    for (int64_t i = row; i < row + row_size; ++i) {
      results[i] = std::clamp(static_cast<scalar_t>(variates[i] / sum), kSmallest, largest);
    }
  }
}

at::Tensor sample_dirichlet(const at::Tensor& self, Generator generator) {
  static OperatorRecord& record = operator_record("aten::_sample_dirichlet");
  const at::Tensor out = at::empty(self.sizes(), self.options());
  AT_DISPATCH_FLOATING_TYPES(self.scalar_type(), "_sample_dirichlet", [&] {
    const RandomStream stream = reserve_random(record, generator, self, self.numel());
    note_call(record, self);
    if (self.numel() == 0) return;
    HostCall call(record, self.device().index());
    const at::Tensor host_self = call.alias(self);
    const at::Tensor host_out = call.alias_written(out);
    call.run([&] { fill_dirichlet<scalar_t>(host_self, host_out, stream); });
  });
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("poisson", TORCH_FN(poisson));
  m.impl("binomial", TORCH_FN(binomial));
  m.impl("_standard_gamma", TORCH_FN(standard_gamma));
  m.impl("_sample_dirichlet", TORCH_FN(sample_dirichlet));
}

}  // namespace
}  // namespace torch_trainium
