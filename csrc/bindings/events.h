// Bindings of what torch.Event leaves to its subclasses.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_trainium {

void bind_events(pybind11::module_& m);

}  // namespace torch_trainium
