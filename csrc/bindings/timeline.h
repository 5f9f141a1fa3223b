// Bindings of the virtual timeline: the submodule torch_trainium._C.timeline.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_trainium {

void bind_timeline(pybind11::module_& m);

}  // namespace torch_trainium
