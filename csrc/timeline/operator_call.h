// What the cost model knows of one operator call: shapes and dtypes, no data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "timeline/cost_class.h"

namespace torch_trainium::timeline {

// Element types as the engines tell them apart.
enum class Element : uint8_t {
  kFloat32,
  kTf32,
  kBfloat16,
  kFloat16,
  kFloat8,
  kMxFloat8,
  kMxFloat4,
  kInt8,  // bool and unsigned bytes too
  kInt16,
  kInt32,
  kInt64,
  kFloat64,  // no engine computes it
  kComplex,  // pairs of floats, of 4 to 16 bytes
};

struct Placement;

inline constexpr int16_t kHostDevice = -1;

struct Operand {
  const int64_t* sizes;
  int rank;
  Element element;
  uint8_t element_bytes;
  bool is_dense;    // elements adjacent in memory, in any order of dimensions
  bool is_written;  // in place or `out=`
  bool is_on_host;
  int64_t elements;
  bool is_permuted = false;  // the last dimension is not the innermost
  int16_t device = 0;

  int64_t bytes() const { return elements * element_bytes; }
};

class GraphRecord;

struct OperatorCall {
  CostClass cost_class;
  // Tensors in the order of the operator's arguments, lists spread out, absent ones left out.
  const Operand* operands;
  int operand_count;
  // What the call allocated for its results; results written in place or `out=` are operands.
  int64_t result_bytes;
  // Where the call is a compiled graph: what it consists of.
  const GraphRecord* graph = nullptr;
  // Where to note when it runs; null if nobody asks.
  Placement* placement = nullptr;
};

// Memory that a call reads or writes, for those who check the order of calls.
struct Access {
  const std::byte* storage;  // where the host finds the memory that the tensor is part of
  size_t storage_bytes;
  const std::byte* data;   // of the first element
  const int64_t* sizes;    // bare bytes are a single element
  const int64_t* strides;  // in elements
  int rank;
  int64_t element_bytes;
  const char* dtype;         // null for bare bytes
  const void* host_storage;  // the c10::StorageImpl of host memory, null for the device's
  bool is_written;
};

inline Access access_to_bytes(const std::byte* begin, size_t bytes, bool is_written) {
  return {begin,   bytes,   begin,     nullptr, nullptr, 0, static_cast<int64_t>(bytes),
          nullptr, nullptr, is_written};
}

// Describes a call that has run, so that its results exist.
class CallSource {
 public:
  // The operands of the call returned are in `operands`, which it replaces.
  virtual OperatorCall describe(std::vector<Operand>& operands) const = 0;
  // Adds what the call read and wrote, its results included.
  virtual void add_accesses(std::vector<Access>& accesses) const = 0;

 protected:
  ~CallSource() = default;
};

}  // namespace torch_trainium::timeline
