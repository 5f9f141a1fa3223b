// Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011): a 64-bit key and a 64-bit counter give
// two 32-bit words. It needs nothing but 32-bit additions, shifts and exclusive
// ors, which every target computes exactly; Philox would need a multiplication
// with a 64-bit product.
//
// The words of one stream (key: the seed) are laid out by *position*, a number
// below 2^62 that belongs to one element of one operator:
//
//   narrow     32 bits: word (position & 1) of block (position >> 1)
//   wide       64 bits: both words of block (2^63 | position)
//   substream  any number of bits: blocks 0, 1, 2... under a key that is block
//              (2^62 | position)
//
// The three never share a block, so however the positions of a stream are used,
// none of its numbers repeats.
#pragma once

#include <cstdint>

namespace torch_trainium::threefry {

inline constexpr uint64_t kWideBlocks = uint64_t{1} << 63;
inline constexpr uint64_t kSubstreamKeys = uint64_t{1} << 62;
inline constexpr uint64_t kPositionCount = uint64_t{1} << 62;

struct Words {
  uint32_t x0;
  uint32_t x1;
};

struct Key {
  uint32_t k0;
  uint32_t k1;

  constexpr explicit Key(uint64_t seed)
      : k0(static_cast<uint32_t>(seed)), k1(static_cast<uint32_t>(seed >> 32)) {}
  constexpr explicit Key(Words words) : k0(words.x0), k1(words.x1) {}
};

template <int kBits>
constexpr uint32_t rotate_left(uint32_t x) {
  return (x << kBits) | (x >> (32 - kBits));
}

template <int kBits>
constexpr void mix(Words& w) {
  w.x0 += w.x1;
  w.x1 = rotate_left<kBits>(w.x1) ^ w.x0;
}

// Branch-free and unrolled, so that a loop over counters vectorizes.
constexpr Words block(Key key, uint32_t counter_low, uint32_t counter_high) {
  constexpr uint32_t kParity = 0x1BD11BDA;  // of the Skein key schedule
  const uint32_t k2 = kParity ^ key.k0 ^ key.k1;
  Words w{counter_low + key.k0, counter_high + key.k1};
  const auto rounds_even = [&w] { mix<13>(w), mix<15>(w), mix<26>(w), mix<6>(w); };
  const auto rounds_odd = [&w] { mix<17>(w), mix<29>(w), mix<16>(w), mix<24>(w); };
  rounds_even();
  w.x0 += key.k1, w.x1 += k2 + 1;
  rounds_odd();
  w.x0 += k2, w.x1 += key.k0 + 2;
  rounds_even();
  w.x0 += key.k0, w.x1 += key.k1 + 3;
  rounds_odd();
  w.x0 += key.k1, w.x1 += k2 + 4;
  rounds_even();
  w.x0 += k2, w.x1 += key.k0 + 5;
  return w;
}

constexpr Words block(Key key, uint64_t counter) {
  return block(key, static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32));
}

constexpr uint32_t narrow(Key key, uint64_t position) {
  const Words w = block(key, position >> 1);
  return (position & 1) == 0 ? w.x0 : w.x1;
}

constexpr uint64_t join(Words w) { return uint64_t{w.x1} << 32 | w.x0; }

constexpr uint64_t wide(Key key, uint64_t position) {
  return join(block(key, kWideBlocks | position));
}

// The words of one position's substream, drawn one after the other.
class Substream {
 public:
  constexpr Substream(Key key, uint64_t position) : key_(block(key, kSubstreamKeys | position)) {}
  constexpr uint64_t next64() { return join(block(key_, counter_++)); }

 private:
  Key key_;
  uint64_t counter_ = 0;
};

}  // namespace torch_trainium::threefry
