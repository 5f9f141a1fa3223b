// Bindings of CPU fallbacks: the submodule torch_trainium._C.fallbacks.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_trainium {

void bind_fallbacks(pybind11::module_& parent);

}  // namespace torch_trainium
