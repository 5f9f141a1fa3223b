// Runs a random operator: reserves one position per element, then computes the
// elements tile by tile, on any number of threads. Element i is the i-th in
// row-major order whatever the strides, so a result depends neither on the
// memory format nor on the thread count.
#pragma once

#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <optional>
#include <type_traits>

#include "aten/host_engine.h"
#include "aten/operator_record.h"
#include "aten/random_tile.h"
#include "core/generator.h"

namespace torch_trainium {

// What an element of type T is computed from, and in: double from 64 bits,
// everything else in float from 32.
template <typename T>
using RandomReal = std::conditional_t<std::is_same_v<T, double>, double, float>;
template <typename T>
using RandomWord = std::conditional_t<std::is_same_v<T, double>, uint64_t, uint32_t>;

// The elements of a host tensor in row-major order.
template <typename T>
class Elements {
 public:
  explicit Elements(const at::TensorBase& host) : data_(data_of(host)) {
    for (int64_t d = 0; d < host.dim(); ++d) {
      if (host.size(d) == 1) continue;
      if (!sizes_.empty() && strides_.back() == host.stride(d) * host.size(d)) {
        sizes_.back() *= host.size(d);
        strides_.back() = host.stride(d);
      } else {
        sizes_.push_back(host.size(d));
        strides_.push_back(host.stride(d));
      }
    }
    if (sizes_.empty()) {
      sizes_.push_back(1);
      strides_.push_back(1);
    }
  }

  // Elements first, ..., first + count - 1, converted.
  template <typename U>
  void load(int64_t first, int64_t count, Tile<U>& out) const {
    U* to = out.values;
    for_each_run(first, count, [&to](const T* run, int64_t stride, int64_t length) {
      for (int64_t i = 0; i < length; ++i) to[i] = static_cast<U>(run[i * stride]);
      to += length;
    });
  }

  template <typename U>
  void store(int64_t first, int64_t count, const Tile<U>& values) const {
    const U* from = values.values;
    for_each_run(first, count, [&from](T* run, int64_t stride, int64_t length) {
      if (stride == 1) {
        for (int64_t i = 0; i < length; ++i) run[i] = static_cast<T>(from[i]);
      } else {
        for (int64_t i = 0; i < length; ++i) run[i * stride] = static_cast<T>(from[i]);
      }
      from += length;
    });
  }

 private:
  static T* data_of(const at::TensorBase& host) {
    if constexpr (std::is_const_v<T>) {
      return static_cast<T*>(host.const_data_ptr());
    } else {
      return static_cast<T*>(host.mutable_data_ptr());
    }
  }

  // Calls run(pointer, stride, length) for pieces along the innermost dimension.
  template <typename Run>
  void for_each_run(int64_t first, int64_t count, const Run& run) const {
    while (count > 0) {
      const int64_t inner = first % sizes_.back();
      int64_t outer = first / sizes_.back();
      int64_t offset = inner * strides_.back();
      for (size_t d = sizes_.size() - 1; d-- > 0; outer /= sizes_[d]) {
        offset += outer % sizes_[d] * strides_[d];
      }
      const int64_t length = std::min(count, sizes_.back() - inner);
      run(data_ + offset, strides_.back(), length);
      first += length;
      count -= length;
    }
  }

  T* data_;
  c10::SmallVector<int64_t, 5> sizes_;
  c10::SmallVector<int64_t, 5> strides_;
};

// Calls body(first, count) for each tile of `elements` elements.
template <typename Body>
void for_each_tile(int64_t elements, const Body& body) {
  constexpr int64_t kTilesPerThread = 128;
  const int64_t tiles = (elements + kTileSize - 1) / kTileSize;
  at::parallel_for(0, tiles, kTilesPerThread, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t first = tile * kTileSize;
      body(first, std::min(kTileSize, elements - first));
    }
  });
}

// Takes positions of a generator's stream for an operator whose first tensor is `self`, unless it
// is a fallback that the user refuses: random numbers that come after it stay what they are.
inline RandomStream reserve_random(const OperatorRecord& record,
                                   const std::optional<at::Generator>& generator,
                                   const at::Tensor& self, int64_t elements) {
  refuse_fallback(record, self);
  return reserve_random(generator, self.device(), elements);
}

// Fills `self` with sample(key, position, tile), where the tile's first element
// has that position.
template <typename scalar_t, typename Value, typename Sample>
void fill_random(OperatorRecord& record, const at::Tensor& self,
                 const std::optional<at::Generator>& generator, const Sample& sample) {
  const RandomStream stream = reserve_random(record, generator, self, self.numel());
  note_call(record, self);
  HostCall call(record, self.device().index());
  const at::Tensor host = call.alias_written(self);
  call.run([&] {
    const Elements<scalar_t> elements(host);
    const threefry::Key key(stream.seed);
    for_each_tile(host.numel(), [&](int64_t first, int64_t count) {
      Tile<Value> values;
      sample(key, stream.offset + static_cast<uint64_t>(first), values);
      elements.store(first, count, values);
    });
  });
}

}  // namespace torch_trainium
