// Binds compiled eager as torch_trainium._C.programs.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_trainium {

void bind_compiled_eager(pybind11::module_& parent);

}  // namespace torch_trainium
