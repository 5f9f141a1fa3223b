// Continuous distributions. Checks and the variants of normal come from
// PyTorch's own templates.
#define AT_PER_OPERATOR_HEADERS
#include <ATen/native/DistributionTemplates.h>
#include <c10/util/BFloat16-math.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "aten/random_fill.h"

namespace torch_trainium {
namespace {

namespace templates = at::native::templates;
using Generator = std::optional<at::Generator>;
using threefry::Key;

// The largest T below `bound`.
template <typename T>
T largest_below(double bound) {
  const T rounded = static_cast<T>(bound);
  if (static_cast<double>(rounded) < bound) return rounded;
  return std::nextafter(rounded, -std::numeric_limits<T>::infinity());
}

// Rounding to T may reach `to`, which uniform never returns.
template <typename T>
T uniform_limit(double from, double to) {
  return std::max(static_cast<T>(from), largest_below<T>(to));
}

template <typename>
struct Uniform {
  void operator()(at::TensorIteratorBase& iter, double from, double to,
                  const Generator& generator) const {
    static OperatorRecord& record = operator_record("aten::uniform_");
    const at::Tensor& self = iter.tensor(0);
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, self.scalar_type(), "uniform_", [&] {
      using real_t = RandomReal<scalar_t>;
      const auto limit = uniform_limit<scalar_t>(from, to);
      const auto low = static_cast<real_t>(from);
      const auto range = static_cast<real_t>(to - from);
      fill_random<scalar_t, scalar_t>(
          record, self, generator, [=](Key key, uint64_t position, Tile<scalar_t>& out) {
            Tile<RandomWord<scalar_t>> words;
            Tile<real_t> unit;
            draw(key, position, words);
            to_unit(words, unit);
            for (int64_t i = 0; i < kTileSize; ++i) {
              out[i] = std::min(static_cast<scalar_t>(unit[i] * range + low), limit);
            }
          });
    });
  }
};

template <typename scalar_t>
void fill_normal(OperatorRecord& record, const at::Tensor& self, double mean, double std,
                 const Generator& generator, bool exponentiated) {
  using real_t = RandomReal<scalar_t>;
  const auto center = static_cast<real_t>(mean);
  const auto scale = static_cast<real_t>(std);
  fill_random<scalar_t, real_t>(record, self, generator,
                                [=](Key key, uint64_t position, Tile<real_t>& out) {
                                  Tile<RandomWord<scalar_t>> words;
                                  draw(key, position, words);
                                  to_normal(words, out);
                                  for (int64_t i = 0; i < kTileSize; ++i)
                                    out[i] = out[i] * scale + center;
                                  if (exponentiated) {
                                    for (int64_t i = 0; i < kTileSize; ++i)
                                      out[i] = std::exp(out[i]);
                                  }
                                });
}

template <typename>
struct Normal {
  void operator()(const at::Tensor& self, double mean, double std,
                  const Generator& generator) const {
    static OperatorRecord& record = operator_record("aten::normal_");
    at::assert_no_internal_overlap(self);
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, self.scalar_type(), "normal_", [&] {
      fill_normal<scalar_t>(record, self, mean, std, generator, false);
    });
  }
};

template <typename>
struct LogNormal {
  void operator()(at::TensorIteratorBase& iter, double mean, double std,
                  const Generator& generator) const {
    static OperatorRecord& record = operator_record("aten::log_normal_");
    const at::Tensor& self = iter.tensor(0);
    AT_DISPATCH_FLOATING_TYPES_AND2(
        at::kHalf, at::kBFloat16, self.scalar_type(), "log_normal_",
        [&] { fill_normal<scalar_t>(record, self, mean, std, generator, true); });
  }
};

template <typename>
struct Exponential {
  void operator()(at::TensorIteratorBase& iter, double lambda, const Generator& generator) const {
    static OperatorRecord& record = operator_record("aten::exponential_");
    const at::Tensor& self = iter.tensor(0);
    TORCH_CHECK(at::isFloatingType(self.scalar_type()),
                "Exponential distribution is a continuous probability distribution. dtype must be "
                "a floating point but you specified ",
                self.dtype());
    AT_DISPATCH_FLOATING_TYPES_AND2(
        at::kHalf, at::kBFloat16, self.scalar_type(), "exponential_", [&] {
          using real_t = RandomReal<scalar_t>;
          const auto scale = static_cast<real_t>(-1.0 / lambda);
          fill_random<scalar_t, real_t>(
              record, self, generator, [=](Key key, uint64_t position, Tile<real_t>& out) {
                // The logarithm of a number that rounded to 1 would give 0, which
                // exponential never returns.
                constexpr auto kLargestLog = -std::numeric_limits<real_t>::epsilon() / 2;
                Tile<RandomWord<scalar_t>> words;
                draw(key, position, words);
                to_log(words, out);
                for (int64_t i = 0; i < kTileSize; ++i) {
                  out[i] = scale * std::min(out[i], kLargestLog);
                }
              });
        });
  }
};

template <typename>
struct Cauchy {
  void operator()(at::TensorIteratorBase& iter, double median, double sigma,
                  const Generator& generator) const {
    static OperatorRecord& record = operator_record("aten::cauchy_");
    const at::Tensor& self = iter.tensor(0);
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, self.scalar_type(), "cauchy_", [&] {
      using real_t = RandomReal<scalar_t>;
      const auto center = static_cast<real_t>(median);
      const auto scale = static_cast<real_t>(sigma);
      fill_random<scalar_t, real_t>(record, self, generator,
                                    [=](Key key, uint64_t position, Tile<real_t>& out) {
                                      Tile<RandomWord<scalar_t>> words;
                                      draw(key, position, words);
                                      to_cotangent(words, out);
                                      // tan(pi (u - 1/2)) = -cot(pi u)
                                      for (int64_t i = 0; i < kTileSize; ++i)
                                        out[i] = center - scale * out[i];
                                    });
    });
  }
};

at::Tensor& uniform_(at::Tensor& self, double from, double to, Generator generator) {
  return templates::uniform_impl_<Uniform, at::Generator>(self, from, to, generator);
}

at::Tensor& normal_(at::Tensor& self, double mean, double std, Generator generator) {
  return templates::normal_impl_<Normal, at::Generator>(self, mean, std, generator);
}

template <typename Mean, typename Std>
at::Tensor normal(Mean mean, Std std, Generator generator) {
  return templates::normal_impl<Normal, at::Generator>(mean, std, generator);
}

template <typename Mean, typename Std>
at::Tensor& normal_out(Mean mean, Std std, Generator generator, at::Tensor& out) {
  return templates::normal_out_impl<Normal, at::Generator>(out, mean, std, generator);
}

at::Tensor& log_normal_(at::Tensor& self, double mean, double std, Generator generator) {
  return templates::log_normal_impl_<LogNormal, at::Generator>(self, mean, std, generator);
}

at::Tensor& exponential_(at::Tensor& self, double lambda, Generator generator) {
  return templates::exponential_impl_<Exponential, at::Generator>(self, lambda, generator);
}

at::Tensor& cauchy_(at::Tensor& self, double median, double sigma, Generator generator) {
  return templates::cauchy_impl_<Cauchy, at::Generator>(self, median, sigma, generator);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("uniform_", TORCH_FN(uniform_));
  m.impl("normal_", TORCH_FN(normal_));
  m.impl("normal.Tensor_float", TORCH_FN((normal<const at::Tensor&, double>)));
  m.impl("normal.float_Tensor", TORCH_FN((normal<double, const at::Tensor&>)));
  m.impl("normal.Tensor_Tensor", TORCH_FN((normal<const at::Tensor&, const at::Tensor&>)));
  m.impl("normal.Tensor_float_out", TORCH_FN((normal_out<const at::Tensor&, double>)));
  m.impl("normal.float_Tensor_out", TORCH_FN((normal_out<double, const at::Tensor&>)));
  m.impl("normal.Tensor_Tensor_out", TORCH_FN((normal_out<const at::Tensor&, const at::Tensor&>)));
  m.impl("log_normal_", TORCH_FN(log_normal_));
  m.impl("exponential_", TORCH_FN(exponential_));
  m.impl("cauchy_", TORCH_FN(cauchy_));
}

}  // namespace
}  // namespace torch_trainium
