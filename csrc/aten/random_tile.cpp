#include "aten/random_tile.h"

#include <bit>
#include <cmath>
#include <numbers>

// One build serves every CPU: the loader picks the version.
#if defined(__x86_64__) && defined(__linux__)
#define TORCH_TRAINIUM_VECTORIZED [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define TORCH_TRAINIUM_VECTORIZED
#endif

namespace torch_trainium {
namespace {

using threefry::Key;
using threefry::Words;

[[gnu::always_inline]] inline float polynomial(float, float constant) { return constant; }

// constant + x * (the next coefficient + x * ...).
template <typename... Floats>
[[gnu::always_inline]] inline float polynomial(float x, float constant, Floats... higher) {
  return constant + x * polynomial(x, higher...);
}

// (word + 1/2) / 2^32, rounded; in (0, 1].
[[gnu::always_inline]] inline float open_unit(uint32_t word) {
  return static_cast<float>(word) * 0x1p-32f + 0x1p-33f;
}

// log(x) of a normal x > 0, with a relative error below 1e-7. The mantissa is
// brought to [sqrt(1/2), sqrt(2)); minimax fit of (log(1 + f) - f + f^2/2) / f^3.
[[gnu::always_inline]] inline float log_polynomial(float x) {
  // ln 2 in two parts: the first times any exponent is exact.
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr uint32_t kSqrtHalf = 0x3F3504F3;
  const uint32_t bits = std::bit_cast<uint32_t>(x) - kSqrtHalf;
  const auto exponent = static_cast<float>(static_cast<int32_t>(bits) >> 23);
  const float f = std::bit_cast<float>((bits & 0x007FFFFF) + kSqrtHalf) - 1.0f;
  const float square = f * f;
  float tail = square * f *
               polynomial(f, 0.33333316445350647f, -0.25000810623168945f, 0.2000228613615036f,
                          -0.16624553501605988f, 0.14181196689605713f, -0.13128767907619476f,
                          0.12881621718406677f, -0.07859545946121216f);
  tail = tail + exponent * kLn2Low;
  tail = tail - 0.5f * square;
  return (f + tail) + exponent * kLn2High;
}

struct SineCosine {
  float sine;
  float cosine;
};

// Of a quarter turn times `quarters`, in [-1/2, 1/2]; minimax fits.
[[gnu::always_inline]] inline SineCosine sine_cosine(float quarters) {
  const float square = quarters * quarters;
  return {quarters * polynomial(square, 1.5707963705062866f, -0.6459634900093079f,
                                0.07968022674322128f, -0.004602177068591118f),
          polynomial(square, 1.0f, -1.2337005138397217f, 0.25366920232772827f,
                     -0.02086007222533226f, 0.0009036316769197583f)};
}

// The nearest multiple of a quarter turn to a phase of word / 2^32 turns, and
// what is left of it, in units of 2^-30 quarters.
struct Phase {
  uint32_t quadrant;
  int32_t rest;
};

[[gnu::always_inline]] inline Phase split_phase(uint32_t word) {
  const uint32_t quadrant = (word + (uint32_t{1} << 29)) >> 30;
  return {quadrant & 3, static_cast<int32_t>(word - (quadrant << 30))};
}

[[gnu::always_inline]] inline SineCosine rotate(SineCosine s, uint32_t quadrant) {
  const bool swap = (quadrant & 1) != 0;
  const float sine = swap ? s.cosine : s.sine;
  const float cosine = swap ? s.sine : s.cosine;
  const uint32_t sine_sign = (quadrant & 2) << 30;
  const uint32_t cosine_sign = ((quadrant + 1) & 2) << 30;
  return {std::bit_cast<float>(std::bit_cast<uint32_t>(sine) ^ sine_sign),
          std::bit_cast<float>(std::bit_cast<uint32_t>(cosine) ^ cosine_sign)};
}

}  // namespace

TORCH_TRAINIUM_VECTORIZED
void draw(Key key, uint64_t position, Tile<uint32_t>& narrow) {
  const uint64_t first = position >> 1;
  const auto low = static_cast<uint32_t>(first);
  const auto high = static_cast<uint32_t>(first >> 32);
  for (uint32_t i = 0; i < kTileSize / 2; ++i) {
    const Words w = threefry::block(key, low + i, high + (low + i < low ? 1u : 0u));
    narrow.values[2 * i] = w.x0;
    narrow.values[2 * i + 1] = w.x1;
  }
}

TORCH_TRAINIUM_VECTORIZED
void draw(Key key, uint64_t position, Tile<uint64_t>& wide) {
  const uint64_t first = threefry::kWideBlocks | position;
  const auto low = static_cast<uint32_t>(first);
  const auto high = static_cast<uint32_t>(first >> 32);
  for (uint32_t i = 0; i < kTileSize; ++i) {
    wide.values[i] =
        threefry::join(threefry::block(key, low + i, high + (low + i < low ? 1u : 0u)));
  }
}

TORCH_TRAINIUM_VECTORIZED
void draw(Key key, uint64_t position, Substreams& substreams) {
  const uint64_t first = threefry::kSubstreamKeys | position;
  const auto low = static_cast<uint32_t>(first);
  const auto high = static_cast<uint32_t>(first >> 32);
  for (uint32_t i = 0; i < kTileSize; ++i) {
    const Words w = threefry::block(key, low + i, high + (low + i < low ? 1u : 0u));
    substreams.k0.values[i] = w.x0;
    substreams.k1.values[i] = w.x1;
  }
  for (uint64_t counter = 0; counter < Substreams::kReady; ++counter) {
    Tile<uint64_t>& ready = substreams.ready[counter];
    for (int64_t i = 0; i < kTileSize; ++i) {
      const Key own({substreams.k0.values[i], substreams.k1.values[i]});
      ready.values[i] = threefry::join(threefry::block(own, counter));
    }
  }
}

TORCH_TRAINIUM_VECTORIZED
void to_unit(const Tile<uint32_t>& words, Tile<float>& out) {
  for (int64_t i = 0; i < kTileSize; ++i) {
    out.values[i] = static_cast<float>(static_cast<int32_t>(words.values[i] >> 8)) * 0x1p-24f;
  }
}

TORCH_TRAINIUM_VECTORIZED
void to_log(const Tile<uint32_t>& words, Tile<float>& out) {
  for (int64_t i = 0; i < kTileSize; ++i) {
    out.values[i] = log_polynomial(open_unit(words.values[i]));
  }
}

TORCH_TRAINIUM_VECTORIZED
void to_normal(const Tile<uint32_t>& words, Tile<float>& out) {
  for (int64_t i = 0; i < kTileSize; i += 2) {
    const float radius = std::sqrt(-2.0f * log_polynomial(open_unit(words.values[i])));
    const Phase phase = split_phase(words.values[i + 1]);
    const SineCosine s =
        rotate(sine_cosine(static_cast<float>(phase.rest) * 0x1p-30f), phase.quadrant);
    out.values[i] = radius * s.cosine;
    out.values[i + 1] = radius * s.sine;
  }
}

TORCH_TRAINIUM_VECTORIZED
void to_cotangent(const Tile<uint32_t>& words, Tile<float>& out) {
  for (int64_t i = 0; i < kTileSize; ++i) {
    const Phase phase = split_phase(words.values[i] >> 1);
    const SineCosine s =
        rotate(sine_cosine((static_cast<float>(phase.rest) + 0.5f) * 0x1p-30f), phase.quadrant);
    out.values[i] = s.cosine / s.sine;
  }
}

TORCH_TRAINIUM_VECTORIZED
void to_unit(const Tile<uint64_t>& words, Tile<double>& out) {
  for (int64_t i = 0; i < kTileSize; ++i) out.values[i] = unit_double(words.values[i]);
}

void to_log(const Tile<uint64_t>& words, Tile<double>& out) {
  for (int64_t i = 0; i < kTileSize; ++i) out[i] = std::log(open_unit_double(words[i]));
}

void to_normal(const Tile<uint64_t>& words, Tile<double>& out) {
  for (int64_t i = 0; i < kTileSize; i += 2) {
    const double radius = std::sqrt(-2.0 * std::log(open_unit_double(words[i])));
    const double angle = 2.0 * std::numbers::pi * unit_double(words[i + 1]);
    out[i] = radius * std::cos(angle);
    out[i + 1] = radius * std::sin(angle);
  }
}

void to_cotangent(const Tile<uint64_t>& words, Tile<double>& out) {
  for (int64_t i = 0; i < kTileSize; ++i) {
    out[i] = 1.0 / std::tan(std::numbers::pi * open_unit_double(words[i]));
  }
}

}  // namespace torch_trainium
