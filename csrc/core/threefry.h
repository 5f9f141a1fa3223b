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
//   substream  any number of 64-bit words: blocks 0, 1, 2... under a key that is
//              block (2^62 | position)
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

template <int... kRotations>
[[gnu::always_inline]] constexpr void mix(Words& w) {
  ((w.x0 += w.x1, w.x1 = rotate_left<kRotations>(w.x1) ^ w.x0), ...);
}

// Branch-free and unrolled, so that a loop over counters vectorizes.
[[gnu::always_inline]] constexpr Words block(Key key, uint32_t counter_low, uint32_t counter_high) {
  constexpr uint32_t kParity = 0x1BD11BDA;  // of Threefish's key schedule
  const uint32_t k2 = kParity ^ key.k0 ^ key.k1;
  Words w{counter_low + key.k0, counter_high + key.k1};
  mix<13, 15, 26, 6>(w);
  w.x0 += key.k1, w.x1 += k2 + 1;
  mix<17, 29, 16, 24>(w);
  w.x0 += k2, w.x1 += key.k0 + 2;
  mix<13, 15, 26, 6>(w);
  w.x0 += key.k0, w.x1 += key.k1 + 3;
  mix<17, 29, 16, 24>(w);
  w.x0 += key.k1, w.x1 += k2 + 4;
  mix<13, 15, 26, 6>(w);
  w.x0 += k2, w.x1 += key.k0 + 5;
  return w;
}

[[gnu::always_inline]] constexpr Words block(Key key, uint64_t counter) {
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

constexpr Key substream_key(Key key, uint64_t position) {
  return Key(block(key, kSubstreamKeys | position));
}

}  // namespace torch_trainium::threefry
