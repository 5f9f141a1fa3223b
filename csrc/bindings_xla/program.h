// The Python type `Program`: a loaded executable of XLA and the arguments of its runs.
#pragma once

#include <Python.h>

namespace torch_trainium::xla_cpu {

// Adds the type to the module; false with a Python exception set.
bool add_program_type(PyObject* module);

}  // namespace torch_trainium::xla_cpu
