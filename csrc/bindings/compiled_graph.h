// Binds compiled graphs as torch_trainium._C.graphs.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_trainium {

void bind_compiled_graph(pybind11::module_& parent);

}  // namespace torch_trainium
