// Random numbers in tiles: fixed-size runs of consecutive positions, which the
// compiler turns into vector code for the CPU at hand.
//
// Only additions, multiplications, square roots, shifts and selections, each
// rounded on its own, so every CPU computes the same bits and a device program
// can be written that does too.
#pragma once

#include <cstdint>

#include "core/threefry.h"

namespace torch_trainium {

inline constexpr int64_t kTileSize = 256;

template <typename T>
struct alignas(64) Tile {
  T values[kTileSize];
  T& operator[](int64_t i) { return values[i]; }
  const T& operator[](int64_t i) const { return values[i]; }
};

// The numbers at positions position, position + 1, ..., of which the first is
// even.
void draw(threefry::Key key, uint64_t position, Tile<uint32_t>& narrow);
void draw(threefry::Key key, uint64_t position, Tile<uint64_t>& wide);

// The substreams of the positions of a tile, their first words drawn beforehand:
// one at a time, a word takes ten times as long.
struct Substreams {
  static constexpr uint64_t kReady = 4;
  Tile<uint32_t> k0;
  Tile<uint32_t> k1;
  Tile<uint64_t> ready[kReady];
};
void draw(threefry::Key key, uint64_t position, Substreams& substreams);

// The words of one of them.
class Substream {
 public:
  Substream(const Substreams& tile, int64_t element) : tile_(&tile), element_(element) {}

  uint64_t next64() {
    const uint64_t counter = counter_++;
    if (counter < Substreams::kReady) return tile_->ready[counter][element_];
    const threefry::Key key({tile_->k0[element_], tile_->k1[element_]});
    return threefry::join(threefry::block(key, counter));
  }

 private:
  const Substreams* tile_;
  int64_t element_;
  uint64_t counter_ = 0;
};

// 24 bits, in [0, 1).
void to_unit(const Tile<uint32_t>& words, Tile<float>& out);
// The natural logarithm of (word + 1/2) / 2^32, which lies in [-22.9, 0].
void to_log(const Tile<uint32_t>& words, Tile<float>& out);
// Standard normal: word 2j gives the radius, word 2j + 1 the angle of the pair of
// elements 2j and 2j + 1 (Box and Muller 1958).
void to_normal(const Tile<uint32_t>& words, Tile<float>& out);
// Cotangent of pi times (word + 1/2) / 2^32 without its last bit; always finite.
void to_cotangent(const Tile<uint32_t>& words, Tile<float>& out);

// The same in double, with the C library's functions: 53 bits in [0, 1), and the
// logarithm, normal and cotangent of a number of 52 bits in (0, 1).
void to_unit(const Tile<uint64_t>& words, Tile<double>& out);
void to_log(const Tile<uint64_t>& words, Tile<double>& out);
void to_normal(const Tile<uint64_t>& words, Tile<double>& out);
void to_cotangent(const Tile<uint64_t>& words, Tile<double>& out);

inline double unit_double(uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }
inline double open_unit_double(uint64_t word) {
  return (static_cast<double>(word >> 12) + 0.5) * 0x1p-52;
}

// An event of probability p happens where a 32-bit word is below this.
inline uint64_t bernoulli_threshold(double p) { return static_cast<uint64_t>(p * 0x1p32 + 0.5); }

}  // namespace torch_trainium
