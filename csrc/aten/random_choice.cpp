// Random choices: permutations and multinomial draws.
#define AT_PER_OPERATOR_HEADERS
#include <ATen/Dispatch.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/topk.h>
#include <torch/library.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <vector>

#include "aten/random_fill.h"

namespace torch_trainium {
namespace {

using Generator = std::optional<at::Generator>;
using threefry::Key;

struct Ticket {
  uint64_t order;
  int64_t index;
};

// The indices 0 to count - 1 in the order of one 64-bit word each; equal words,
// if there ever are any, keep the order of the indices. A first pass spreads the
// words over buckets of about eight, which are then sorted one by one.
std::unique_ptr<Ticket[]> shuffled(int64_t count, RandomStream stream) {
  const Key key(stream.seed);
  const auto words = std::make_unique_for_overwrite<uint64_t[]>(static_cast<size_t>(count));
  for_each_tile(count, [&](int64_t first, int64_t length) {
    Tile<uint64_t> tile;
    draw(key, stream.offset + static_cast<uint64_t>(first), tile);
    std::copy_n(tile.values, length, words.get() + first);
  });

  const int bucket_bits =
      std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(count))) - 3);
  const int shift = 64 - bucket_bits;
  std::vector<int64_t> ends((size_t{1} << bucket_bits) + 1, 0);
  for (int64_t i = 0; i < count; ++i) ++ends[(words[i] >> shift) + 1];
  for (size_t bucket = 1; bucket < ends.size(); ++bucket) ends[bucket] += ends[bucket - 1];

  auto tickets = std::make_unique_for_overwrite<Ticket[]>(static_cast<size_t>(count));
  std::vector<int64_t> next(ends.begin(), ends.end() - 1);
  for (int64_t i = 0; i < count; ++i) {
    tickets[next[words[i] >> shift]++] = {words[i], i};
  }

  constexpr int64_t kBucketsPerThread = 4096;
  const auto buckets = static_cast<int64_t>(next.size());
  at::parallel_for(0, buckets, kBucketsPerThread, [&](int64_t begin, int64_t end) {
    for (int64_t bucket = begin; bucket < end; ++bucket) {
      std::sort(tickets.get() + ends[static_cast<size_t>(bucket)],
                tickets.get() + ends[static_cast<size_t>(bucket) + 1],
                [](const Ticket& a, const Ticket& b) {
                  return a.order != b.order ? a.order < b.order : a.index < b.index;
                });
    }
  });
  return tickets;
}

at::Tensor& randperm_out(int64_t n, Generator generator, at::Tensor& out) {
  static OperatorRecord& record = operator_record("aten::randperm");
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  at::native::check_supported_max_int_with_precision(n, out);
  out.resize_({n});
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, out.scalar_type(), "randperm", [&] {
    const RandomStream stream = reserve_random(record, generator, out, n);
    note_call(record, out);
    if (n == 0) return;
    HostCall call(record, out.device().index());
    const at::Tensor host = call.alias_written(out);
    call.run([&] {
      const auto tickets = shuffled(n, stream);
      const Elements<scalar_t> elements(host);
      for_each_tile(n, [&](int64_t first, int64_t count) {
        Tile<int64_t> indices;
        for (int64_t i = 0; i < count; ++i) {
          indices[i] = tickets[first + i].index;
        }
        elements.store(first, count, indices);
      });
    });
  });
  return out;
}

// Running sums of each row of probabilities, which need not add up to one.
template <typename scalar_t>
at::Tensor cumulate(const at::Tensor& host_probabilities) {
  const at::Tensor probabilities = host_probabilities.contiguous();
  const at::Tensor sums =
      at::empty(probabilities.sizes(), probabilities.options().dtype(at::kDouble));
  const int64_t categories = probabilities.size(-1);
  const auto* from = probabilities.const_data_ptr<scalar_t>();
  auto* to = sums.mutable_data_ptr<double>();
  const int64_t rows_per_thread = std::max<int64_t>(1, 32768 / categories);
  at::parallel_for(0, sums.numel() / categories, rows_per_thread, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      double sum = 0;
      for (int64_t i = row * categories; i < (row + 1) * categories; ++i) {
        const auto p = static_cast<double>(from[i]);
        TORCH_CHECK(p >= 0,
                    "invalid multinomial distribution (encountering probability entry < 0)");
        TORCH_CHECK(std::isfinite(p),
                    "invalid multinomial distribution (encountering probability entry = infinity "
                    "or NaN)");
        to[i] = sum += p;
      }
      TORCH_CHECK(sum > 0, "invalid multinomial distribution (sum of probabilities <= 0)");
    }
  });
  return sums;
}

void draw_with_replacement(const at::Tensor& self, const Generator& generator, at::Tensor& out) {
  static OperatorRecord& record = operator_record("aten::multinomial");
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, self.scalar_type(), "multinomial", [&] {
    const RandomStream stream = reserve_random(record, generator, self, out.numel());
    note_call(record, self);
    HostCall call(record, self.device().index());
    const at::Tensor host_self = call.alias(self);
    const at::Tensor host_out = call.alias_written(out);
    call.run([&] {
      const at::Tensor sums = cumulate<scalar_t>(host_self);
      const int64_t categories = sums.size(-1);
      const int64_t draws = host_out.size(-1);
      const double* rows = sums.const_data_ptr<double>();
      const Elements<int64_t> choices(host_out);
      const Key key(stream.seed);
      for_each_tile(host_out.numel(), [&](int64_t first, int64_t count) {
        Tile<uint64_t> words;
        Tile<int64_t> chosen;
        draw(key, stream.offset + static_cast<uint64_t>(first), words);
        for (int64_t i = 0; i < count; ++i) {
          const double* begin = rows + (first + i) / draws * categories;
          const double* end = begin + categories;
          // Above 0 and at most the sum, so a category of probability 0 is
          // never chosen.
          const double target = open_unit_double(words[i]) * end[-1];
          chosen[i] = std::lower_bound(begin, end, target) - begin;
        }
        choices.store(first, count, chosen);
      });
    });
  });
}

// The largest of p / q with q exponentially distributed are a draw without
// replacement (the Gumbel-max trick, exponentiated).
void draw_without_replacement(const at::Tensor& self, int64_t draws, const Generator& generator,
                              at::Tensor& out) {
  const auto [smallest, largest] = at::aminmax(self);
  TORCH_CHECK(smallest.item<double>() >= 0 && std::isfinite(largest.item<double>()),
              "probability tensor contains either `inf`, `nan` or element < 0");
  TORCH_CHECK(!self.sum(-1).eq(0).any().item<bool>(),
              "invalid multinomial distribution (sum of probabilities <= 0)");
  at::Tensor keys = at::empty_like(self).exponential_(1, generator);
  at::div_out(keys, self, keys);
  if (draws == 1) {
    at::argmax_out(out, keys, -1, /*keepdim=*/true);
  } else {
    at::Tensor values = at::empty(out.sizes(), self.options());
    at::topk_out(values, out, keys, draws);
  }
}

at::Tensor& multinomial_out(const at::Tensor& self, int64_t draws, bool with_replacement,
                            Generator generator, at::Tensor& out) {
  constexpr int64_t kMaxCategories = int64_t{1} << 24;
  TORCH_CHECK(out.device() == self.device(), "multinomial arguments must have the same device");
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(
      at::isFloatingType(self.scalar_type()),
      "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
  TORCH_CHECK(out.scalar_type() == at::kLong,
              "multinomial expects Long tensor out, got: ", out.scalar_type());
  TORCH_CHECK(draws > 0, "cannot sample n_sample <= 0 samples");
  const int64_t categories = self.size(-1);
  TORCH_CHECK(with_replacement || draws <= categories,
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  TORCH_CHECK(categories <= kMaxCategories, "number of categories cannot exceed 2^24");
  if (self.dim() == 1) {
    out.resize_({draws});
  } else {
    out.resize_({self.size(0), draws});
  }
  if (out.numel() == 0) return out;
  TORCH_CHECK(categories > 0, "multinomial expects at least one category, but got input of size ",
              self.sizes());
  if (with_replacement && draws > 1) {
    draw_with_replacement(self, generator, out);
  } else {
    draw_without_replacement(self, draws, generator, out);
  }
  return out;
}

at::Tensor multinomial(const at::Tensor& self, int64_t draws, bool with_replacement,
                       Generator generator) {
  at::Tensor out = at::empty({0}, self.options().dtype(at::kLong));
  return multinomial_out(self, draws, with_replacement, generator, out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("randperm.generator_out", TORCH_FN(randperm_out));
  m.impl("multinomial", TORCH_FN(multinomial));
  m.impl("multinomial.out", TORCH_FN(multinomial_out));
}

}  // namespace
}  // namespace torch_trainium
