// Discrete distributions on one word per element: random_, bernoulli, geometric.
#define AT_PER_OPERATOR_HEADERS
#include <ATen/native/DistributionTemplates.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "aten/random_fill.h"

namespace torch_trainium {
namespace {

namespace templates = at::native::templates;
using Generator = std::optional<at::Generator>;
using threefry::Key;

constexpr const char* kBeyondRange =
    "random_ from -2^63 supports only int64, float64, float32 and bfloat16, but got ";

// Integers in [base, base + range), by the high part of a product. Some values
// are likelier than others by up to range / 2^32 or range / 2^64, hence the wide
// words from a range of 2^28 on, where CUDA draws the line too.
template <typename scalar_t>
void fill_integers(OperatorRecord& record, const at::Tensor& self, uint64_t range, int64_t base,
                   const Generator& generator) {
  constexpr uint64_t kWideRange = uint64_t{1} << 28;
  const auto offset = static_cast<uint64_t>(base);
  const auto to_scalar = [](uint64_t value) {
    return static_cast<scalar_t>(static_cast<int64_t>(value));
  };
  if (range < kWideRange) {
    fill_random<scalar_t, scalar_t>(record, self, generator,
                                    [=](Key key, uint64_t position, Tile<scalar_t>& out) {
                                      Tile<uint32_t> words;
                                      draw(key, position, words);
                                      for (int64_t i = 0; i < kTileSize; ++i) {
                                        out[i] = to_scalar((words[i] * range >> 32) + offset);
                                      }
                                    });
  } else {
    fill_random<scalar_t, scalar_t>(
        record, self, generator, [=](Key key, uint64_t position, Tile<scalar_t>& out) {
          using uint128 = unsigned __int128;
          Tile<uint64_t> words;
          draw(key, position, words);
          for (int64_t i = 0; i < kTileSize; ++i) {
            const auto product = static_cast<uint128>(words[i]) * range;
            out[i] = to_scalar(static_cast<uint64_t>(product >> 64) + offset);
          }
        });
  }
}

// The number of values of random_() without bounds: 0 to the largest value, or
// to the largest integer up to which all are representable.
template <typename scalar_t>
constexpr uint64_t natural_range() {
  if constexpr (std::is_integral_v<scalar_t>) {
    return static_cast<uint64_t>(std::numeric_limits<scalar_t>::max()) + 1;
  } else {
    return (uint64_t{1} << std::numeric_limits<scalar_t>::digits) + 1;
  }
}

template <typename>
struct RandomNatural {
  void operator()(at::TensorIteratorBase& iter, const Generator& generator) const {
    static OperatorRecord& record = operator_record("aten::random_");
    const at::Tensor& self = iter.tensor(0);
    AT_DISPATCH_ALL_TYPES_AND3(
        at::kBool, at::kHalf, at::kBFloat16, self.scalar_type(), "random_",
        [&] { fill_integers<scalar_t>(record, self, natural_range<scalar_t>(), 0, generator); });
  }
};

template <typename>
struct RandomBetween {
  void operator()(at::TensorIteratorBase& iter, uint64_t range, int64_t from,
                  const Generator& generator) const {
    static OperatorRecord& record = operator_record("aten::random_.from");
    const at::Tensor& self = iter.tensor(0);
    AT_DISPATCH_V2(self.scalar_type(), "random_",
                   AT_WRAP([&] { fill_integers<scalar_t>(record, self, range, from, generator); }),
                   AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), at::kBool,
                   at::kHalf, at::kBFloat16);
  }

  // All 2^64 integers.
  void operator()(at::TensorIteratorBase& iter, const Generator& generator) const {
    static OperatorRecord& record = operator_record("aten::random_.from");
    const at::Tensor& self = iter.tensor(0);
    TORCH_CHECK_NOT_IMPLEMENTED(
        self.scalar_type() == at::kLong || self.scalar_type() == at::kDouble ||
            self.scalar_type() == at::kFloat || self.scalar_type() == at::kBFloat16,
        kBeyondRange, self.scalar_type());
    AT_DISPATCH_V2(self.scalar_type(), "random_", AT_WRAP([&] {
                     fill_random<scalar_t, scalar_t>(
                         record, self, generator,
                         [](Key key, uint64_t position, Tile<scalar_t>& out) {
                           Tile<uint64_t> words;
                           draw(key, position, words);
                           for (int64_t i = 0; i < kTileSize; ++i) {
                             out[i] = static_cast<scalar_t>(static_cast<int64_t>(words[i]));
                           }
                         });
                   }),
                   at::kLong, at::kDouble, at::kFloat, at::kBFloat16);
  }
};

template <typename>
struct BernoulliScalar {
  void operator()(const at::Tensor& self, double p, const Generator& generator) const {
    static OperatorRecord& record = operator_record("aten::bernoulli_.float");
    const uint64_t threshold = bernoulli_threshold(p);
    AT_DISPATCH_ALL_TYPES_AND3(
        at::kBool, at::kHalf, at::kBFloat16, self.scalar_type(), "bernoulli_", [&] {
          fill_random<scalar_t, uint8_t>(record, self, generator,
                                         [=](Key key, uint64_t position, Tile<uint8_t>& out) {
                                           Tile<uint32_t> words;
                                           draw(key, position, words);
                                           for (int64_t i = 0; i < kTileSize; ++i)
                                             out[i] = words[i] < threshold;
                                         });
        });
  }
};

template <typename scalar_t, typename probability_t>
void fill_bernoulli(const at::Tensor& host, const at::Tensor& host_p, RandomStream stream) {
  const Elements<scalar_t> out(host);
  const Elements<const probability_t> probabilities(host_p);
  const Key key(stream.seed);
  for_each_tile(host.numel(), [&](int64_t first, int64_t count) {
    Tile<uint32_t> words;
    Tile<double> p;
    Tile<uint8_t> values;
    draw(key, stream.offset + static_cast<uint64_t>(first), words);
    probabilities.load(first, count, p);
    for (int64_t i = 0; i < count; ++i) {
      TORCH_CHECK(p[i] >= 0 && p[i] <= 1,
                  "bernoulli_ expects all values of p to be in [0, 1], but got p=", p[i]);
      values[i] = words[i] < bernoulli_threshold(p[i]);
    }
    out.store(first, count, values);
  });
}

template <typename>
struct BernoulliTensor {
  void operator()(const at::Tensor& self, const at::Tensor& p, const Generator& generator) const {
    static OperatorRecord& record = operator_record("aten::bernoulli_.Tensor");
    const at::Tensor source = p.is_alias_of(self) ? p.clone() : p.to(self.device());
    const c10::MaybeOwned<at::Tensor> probabilities = at::expand_size(source, self.sizes());
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, p.scalar_type(), "bernoulli_ p", [&] {
      using probability_t = scalar_t;
      AT_DISPATCH_ALL_TYPES_AND3(
          at::kBool, at::kHalf, at::kBFloat16, self.scalar_type(), "bernoulli_", [&] {
            const RandomStream stream = reserve_random(record, generator, self, self.numel());
            note_call(record, self, p);
            HostCall call(record, self.device().index());
            const at::Tensor host = call.alias_written(self);
            const at::Tensor host_p = call.alias(*probabilities);
            call.run([&] { fill_bernoulli<scalar_t, probability_t>(host, host_p, stream); });
          });
    });
  }
};

// ceil(log(u) / log(1 - p)), at least 1 and at most what T holds. Integers use
// double, where a small p keeps its precision.
template <typename>
struct Geometric {
  void operator()(at::TensorIteratorBase& iter, double p, const Generator& generator) const {
    static OperatorRecord& record = operator_record("aten::geometric_");
    const at::Tensor& self = iter.tensor(0);
    AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, self.scalar_type(), "geometric_", [&] {
      using source_t = std::conditional_t<std::is_integral_v<scalar_t>, double, scalar_t>;
      using real_t = RandomReal<source_t>;
      const auto scale = static_cast<real_t>(1.0 / std::log1p(-p));
      fill_random<scalar_t, scalar_t>(
          record, self, generator, [=](Key key, uint64_t position, Tile<scalar_t>& out) {
            Tile<RandomWord<source_t>> words;
            Tile<real_t> logs;
            draw(key, position, words);
            to_log(words, logs);
            for (int64_t i = 0; i < kTileSize; ++i) {
              const real_t trials = std::max(std::ceil(logs[i] * scale), real_t{1});
              if constexpr (std::is_integral_v<scalar_t>) {
                constexpr auto kMax = std::numeric_limits<scalar_t>::max();
                out[i] = trials < static_cast<real_t>(kMax) ? static_cast<scalar_t>(trials) : kMax;
              } else {
                out[i] = static_cast<scalar_t>(trials);
              }
            }
          });
    });
  }
};

at::Tensor& random_(at::Tensor& self, Generator generator) {
  return templates::random_impl<RandomNatural, at::Generator>(self, generator);
}

at::Tensor& random_from(at::Tensor& self, int64_t from, std::optional<int64_t> to,
                        Generator generator) {
  return templates::random_from_to_impl<RandomBetween, at::Generator>(self, from, to, generator);
}

at::Tensor& random_to(at::Tensor& self, int64_t to, Generator generator) {
  return random_from(self, 0, to, generator);
}

at::Tensor& bernoulli_float(at::Tensor& self, double p, Generator generator) {
  return templates::bernoulli_impl_<BernoulliScalar, at::Generator>(self, p, generator);
}

at::Tensor& bernoulli_tensor(at::Tensor& self, const at::Tensor& p, Generator generator) {
  return templates::bernoulli_impl_<BernoulliTensor, at::Generator>(self, p, generator);
}

at::Tensor& bernoulli_out(const at::Tensor& self, Generator generator, at::Tensor& out) {
  return templates::bernoulli_out_impl<BernoulliTensor, at::Generator>(out, self, generator);
}

at::Tensor& geometric_(at::Tensor& self, double p, Generator generator) {
  return templates::geometric_impl_<Geometric, at::Generator>(self, p, generator);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("random_", TORCH_FN(random_));
  m.impl("random_.from", TORCH_FN(random_from));
  m.impl("random_.to", TORCH_FN(random_to));
  m.impl("bernoulli_.float", TORCH_FN(bernoulli_float));
  m.impl("bernoulli_.Tensor", TORCH_FN(bernoulli_tensor));
  m.impl("bernoulli.out", TORCH_FN(bernoulli_out));
  m.impl("geometric_", TORCH_FN(geometric_));
}

}  // namespace
}  // namespace torch_trainium
