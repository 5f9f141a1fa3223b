// A call taken apart: what its program depends on, and the data that it runs on.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string>
#include <vector>

namespace torch_trainium {

struct CallArguments {
  std::string key;                          // calls with equal keys have one program
  c10::SmallVector<at::Tensor, 6> tensors;  // each once, in the order of the arguments
  c10::SmallVector<c10::Scalar, 4> numbers;
  std::optional<at::Generator> generator;
};

// `takes_numbers` says of each argument whether the program takes its numbers when it runs, so that
// only their type is part of the key. False for arguments of a kind that has no key.
bool read_arguments(c10::ArrayRef<c10::IValue> arguments, const std::vector<bool>& takes_numbers,
                    CallArguments& read);

}  // namespace torch_trainium
