// A call's program run without Python code: results allocated, addresses filled in, numbers
// converted.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "bindings/call_arguments.h"
#include "bindings/python_calls.h"
#include "bindings/result_tensors.h"
#include "runtime/loaded_program.h"

namespace torch_trainium {

// Where the operator's result comes from, and where the program writes it.
struct PlainResult {
  int64_t written;       // position of the tensor that it is, or kNewTensor
  int64_t offset_bytes;  // of its first element in the program's buffer
  bool is_output;
};
inline constexpr int64_t kNewTensor = -1;

// A number of the program: one of the call's, converted, if the dtype that PyTorch converts it to
// first can hold it.
struct PlainNumber {
  int64_t source;
  c10::ScalarType dtype;
  std::optional<c10::ScalarType> holder;
};

// A number in the bytes of a dtype, converted as PyTorch converts.
runtime::ProgramNumber program_number(const c10::Scalar& number, c10::ScalarType dtype);

// What the operator returns: some of the results, as a list or alone.
struct PlainReturn {
  bool is_list;
  std::vector<int64_t> results;  // alone and none: an undefined tensor
};

class PlainCall {
 public:
  // `numbers` is a list of PlainNumber as tuples, or a Python function from the call's numbers and
  // its random stream to the program's numbers in 16 bytes each. `raise_error` raises what an error
  // of the program stands for.
  PlainCall(pybind11::object capsule, std::vector<int64_t> inputs, ResultTensors new_tensors,
            std::vector<PlainResult> results, pybind11::object numbers, int64_t random_positions,
            std::vector<PlainReturn> returns, pybind11::object raise_error);

  // Takes the operator's arguments off the stack and leaves its results. Called with the GIL.
  void run(const CallArguments& arguments, size_t argument_count, torch::jit::Stack* stack) const;

  uint64_t runs() const { return runs_.load(std::memory_order_relaxed); }

 private:
  void write_numbers(const CallArguments& arguments, const c10::Device& device,
                     std::vector<runtime::ProgramNumber>& written) const;

  Held capsule_;
  const runtime::LoadedProgram* program_;  // null where there is nothing to compute
  std::vector<int64_t> inputs_;
  ResultTensors new_tensors_;
  std::vector<PlainResult> results_;
  std::vector<PlainNumber> numbers_;
  Held number_function_;
  int64_t random_positions_;
  std::vector<PlainReturn> returns_;
  Held raise_error_;
  mutable std::atomic<uint64_t> runs_{0};
};

}  // namespace torch_trainium
