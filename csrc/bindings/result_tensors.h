// The new tensors of a call, made without passing the user's function modes.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/utils/pybind.h>

#include <vector>

namespace torch_trainium {

class ResultTensors {
 public:
  // Each a tuple of dtype, sizes and strides.
  explicit ResultTensors(const pybind11::list& descriptions);
  std::vector<at::Tensor> allocate(const c10::Device& device) const;

 private:
  struct Row {
    c10::ScalarType dtype;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
  };
  std::vector<Row> rows_;
};

}  // namespace torch_trainium
