// torch_trainium.engines._torch_kernels: PyTorch's CPU kernels as custom calls of XLA:CPU programs.
#include <Python.h>

#include "bindings_kernels/handlers.h"

namespace torch_trainium::kernels {
namespace {

struct Row {
  const char* name;
  void* (*handler)();
};

constexpr Row kHandlers[] = {
    {"torch_trainium.kernel.dot", dot_handler},
    {"torch_trainium.kernel.convolution", convolution_handler},
    {"torch_trainium.kernel.convolution_input_gradient", convolution_input_gradient_handler},
    {"torch_trainium.kernel.convolution_kernel_gradient", convolution_kernel_gradient_handler},
    {"torch_trainium.kernel.cumulative_sum", cumulative_sum_handler},
    {"torch_trainium.kernel.cumulative_product", cumulative_product_handler},
    {"torch_trainium.kernel.top_k", top_k_handler},
};

// handlers() -> {name of the custom call: capsule}
PyObject* handlers(PyObject* /*module*/, PyObject* /*none*/) {
  PyObject* found = PyDict_New();
  if (found == nullptr) return nullptr;
  for (const Row& row : kHandlers) {
    PyObject* capsule = PyCapsule_New(row.handler(), "xla._CUSTOM_CALL_TARGET", nullptr);
    const bool stored = capsule != nullptr && PyDict_SetItemString(found, row.name, capsule) == 0;
    Py_XDECREF(capsule);
    if (!stored) {
      Py_DECREF(found);
      return nullptr;
    }
  }
  return found;
}

PyMethodDef methods[] = {
    {"handlers", handlers, METH_NOARGS, "The handlers of the custom calls, by name."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "_torch_kernels",
                          "PyTorch's CPU kernels as custom calls of XLA:CPU programs.",
                          -1,
                          methods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace
}  // namespace torch_trainium::kernels

PyMODINIT_FUNC PyInit__torch_kernels() {
  return PyModule_Create(&torch_trainium::kernels::definition);
}
