#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "bindings_kernels/handlers.h"
#include "bindings_kernels/kernel_call.h"
#include "bindings_kernels/parallel.h"

namespace torch_trainium::kernels {
namespace {

// A float's place in descending order in the upper half, and its position in the lower: all differ,
// and of equal floats the first comes first.
using Entry = uint64_t;

// Rows that short take less time without counting digits.
constexpr int64_t kMinRadixLength = 256;
constexpr int kDigitBits = 11;
constexpr size_t kDigits = size_t{1} << kDigitBits;

// Ascends where floats descend, from positive NaN to negative.
uint32_t descending(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  return (bits >> 31) != 0 ? bits : ~(bits | 0x80000000U);
}

float number_of(Entry entry) {
  const auto place = static_cast<uint32_t>(entry >> 32);
  return std::bit_cast<float>((place >> 31) != 0 ? place : ~place & 0x7FFFFFFFU);
}

// Sorts by the upper halves, digit by digit from the lowest; equal ones keep their order.
void radix_sort(std::vector<Entry>& entries, std::vector<Entry>& spare) {
  for (int shift = 32; shift < 64; shift += kDigitBits) {
    std::array<size_t, kDigits> starts{};
    for (const Entry entry : entries) ++starts[(entry >> shift) % kDigits];
    size_t start = 0;
    for (size_t& count : starts) start += std::exchange(count, start);
    for (const Entry entry : entries) spare[starts[(entry >> shift) % kDigits]++] = entry;
    entries.swap(spare);
  }
}

void order(std::vector<Entry>& entries, std::vector<Entry>& spare, int64_t count) {
  const auto length = static_cast<int64_t>(entries.size());
  if (length >= kMinRadixLength && count > length / 8) {
    radix_sort(entries, spare);
    return;
  }
  const auto end = entries.begin() + count;
  if (count < length) std::nth_element(entries.begin(), end, entries.end());
  std::sort(entries.begin(), end);
}

// Rows of `length` numbers, of which the `count` largest are wanted.
void top_k_of_rows(const float* from, int64_t rows, int64_t length, int64_t count, float* values,
                   int32_t* positions) {
  std::vector<Entry> entries(length);
  std::vector<Entry> spare(length);
  for (int64_t row = 0; row < rows; ++row, from += length, values += count, positions += count) {
    for (int64_t i = 0; i < length; ++i) entries[i] = Entry{descending(from[i])} << 32 | i;
    order(entries, spare, count);
    for (int64_t i = 0; i < count; ++i) {
      values[i] = number_of(entries[i]);
      positions[i] = static_cast<int32_t>(entries[i]);
    }
  }
}

ffi::Error top_k(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> a,
                 ffi::Result<ffi::Buffer<ffi::F32>> values,
                 ffi::Result<ffi::Buffer<ffi::S32>> positions) {
  return run("top_k", [&] {
    const int64_t length = a.dimensions().back();
    const int64_t count = values->dimensions().back();
    const auto rows = static_cast<int64_t>(a.element_count()) / length;
    const int64_t parts = std::min(rows, pool.num_threads());
    run_parts(pool, parts, [&](int64_t i) {
      const int64_t start = rows * i / parts;
      const int64_t size = rows * (i + 1) / parts - start;
      top_k_of_rows(a.typed_data() + start * length, size, length, count,
                    values->typed_data() + start * count, positions->typed_data() + start * count);
    });
  });
}

XLA_FFI_DEFINE_HANDLER(handle_top_k, top_k,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<ffi::Buffer<ffi::F32>>()
                           .Ret<ffi::Buffer<ffi::F32>>()
                           .Ret<ffi::Buffer<ffi::S32>>());

}  // namespace

void* top_k_handler() { return reinterpret_cast<void*>(handle_top_k); }

}  // namespace torch_trainium::kernels
