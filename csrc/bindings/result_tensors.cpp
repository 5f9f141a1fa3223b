#include "bindings/result_tensors.h"

#include <ATen/ops/empty_strided.h>
#include <torch/csrc/Dtype.h>

namespace torch_trainium {

namespace py = pybind11;

ResultTensors::ResultTensors(const py::list& descriptions) {
  for (const py::handle& description : descriptions) {
    const auto row = py::cast<py::tuple>(description);
    TORCH_CHECK_TYPE(THPDtype_Check(row[0].ptr()), "a result's description starts with a dtype");
    rows_.push_back({reinterpret_cast<THPDtype*>(row[0].ptr())->scalar_type,
                     py::cast<std::vector<int64_t>>(row[1]),
                     py::cast<std::vector<int64_t>>(row[2])});
  }
}

std::vector<at::Tensor> ResultTensors::allocate(const c10::Device& device) const {
  std::vector<at::Tensor> tensors;
  tensors.reserve(rows_.size());
  for (const Row& row : rows_) {
    tensors.push_back(at::empty_strided(row.sizes, row.strides,
                                        at::TensorOptions().dtype(row.dtype).device(device)));
  }
  return tensors;
}

}  // namespace torch_trainium
