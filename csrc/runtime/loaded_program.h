// A compiled program as its engine offers it to C++ callers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace torch_trainium::runtime {

// A number that a program takes, in the bytes of its element type.
using ProgramNumber = std::array<std::byte, 16>;

// What a run returns when it raised a Python exception.
inline constexpr int64_t kRaised = -1;

inline constexpr const char* kLoadedProgramCapsule = "torch_trainium.loaded_program";

// Lives as long as the capsule that it came in.
struct LoadedProgram {
  void* program;
  // Reads the inputs and writes the outputs at these host addresses, and waits. Called with the
  // GIL, which it releases meanwhile. Returns the program's error, 0 for none, or kRaised.
  int64_t (*run)(void* program, const uint64_t* inputs, const ProgramNumber* numbers,
                 const uint64_t* outputs);
};

}  // namespace torch_trainium::runtime
