// The names that Python and the data files have for enumerations of the cost model.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

#include "timeline/cost_class.h"

namespace torch_trainium::timeline {

inline constexpr const char* kClassNames[] = {
#define TORCH_TRAINIUM_CLASS(name, text) text,
    TORCH_TRAINIUM_COST_CLASSES(TORCH_TRAINIUM_CLASS)
#undef TORCH_TRAINIUM_CLASS
};
inline constexpr const char* kElementNames[] = {
    "float32", "tf32",  "bfloat16", "float16", "float8",  "mxfloat8", "mxfloat4",
    "int8",    "int16", "int32",    "int64",   "float64", "complex"};
inline constexpr const char* kEngineNames[] = {"tensor", "vector", "scalar",
                                               "gpsimd", "dma",    "collective"};
inline constexpr const char* kBoundNames[] = {"launch", "tensor", "vector", "scalar",
                                              "gpsimd", "dma",    "host",   "collective"};
inline constexpr const char* kCollectiveNames[] = {"all_reduce", "all_gather", "reduce_scatter",
                                                   "all_to_all", "broadcast",  "send_receive"};

// Throws std::invalid_argument for a name that is none of them.
template <typename Enum, size_t N>
Enum named(const char* const (&names)[N], const std::string& name, const char* what) {
  for (size_t i = 0; i < N; ++i) {
    if (name == names[i]) return static_cast<Enum>(i);
  }
  std::string message = std::string("no ") + what + " is called " + name + "; there are";
  for (const char* known : names) message += std::string(" ") + known;
  throw std::invalid_argument(message);
}

}  // namespace torch_trainium::timeline
