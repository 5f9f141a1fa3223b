// Bindings of the memory allocators: the submodule torch_trainium._C.memory.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_trainium {

void bind_memory(pybind11::module_& m);

}  // namespace torch_trainium
