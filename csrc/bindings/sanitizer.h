// Bindings of the stream sanitizer: the submodule torch_trainium._C.sanitizer.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_trainium {

void bind_sanitizer(pybind11::module_& parent);

}  // namespace torch_trainium
