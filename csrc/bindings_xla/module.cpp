// torch_trainium.engines._xla_buffers: how programs of XLA:CPU reach memory that is not XLA's.
//
// Inputs are lent as DLPack tensors over the caller's bytes. Outputs leave through a custom call,
// `torch_trainium.store`: XLA cannot be given a result buffer, and donating a lent one silently
// copies it.
#include <Python.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "bindings_xla/program.h"
#include "bindings_xla/store.h"

namespace torch_trainium::xla_cpu {
namespace {

// DLPack 0.8, which every release of jaxlib reads.
struct DlDevice {
  int32_t type;
  int32_t id;
};
struct DlType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  int32_t rank;
  DlType type;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DlManagedTensor {
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManagedTensor*);
};

struct Loan {
  DlManagedTensor managed{};
  std::vector<int64_t> shape;
};

void end_loan(DlManagedTensor* managed) { delete static_cast<Loan*>(managed->context); }

void drop_unused_loan(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor") == 0) return;  // somebody took it over
  end_loan(static_cast<DlManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor")));
}

// lend(address, type code, bits, shape) -> DLPack capsule
PyObject* lend(PyObject* /*module*/, PyObject* args) {
  unsigned long long address = 0;
  unsigned char code = 0;
  unsigned char bits = 0;
  PyObject* sizes = nullptr;
  if (PyArg_ParseTuple(args, "KbbO!", &address, &code, &bits, &PyTuple_Type, &sizes) == 0) {
    return nullptr;
  }
  auto loan = std::make_unique<Loan>();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sizes); ++i) {
    loan->shape.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, i)));
  }
  if (PyErr_Occurred() != nullptr) return nullptr;
  constexpr int32_t kCpu = 1;
  loan->managed.tensor = {reinterpret_cast<void*>(address),
                          {kCpu, 0},
                          static_cast<int32_t>(loan->shape.size()),
                          {code, bits, 1},
                          loan->shape.data(),
                          nullptr,
                          0};
  loan->managed.context = loan.get();
  loan->managed.deleter = end_loan;
  PyObject* capsule = PyCapsule_New(&loan->managed, "dltensor", drop_unused_loan);
  if (capsule != nullptr) loan.release();
  return capsule;
}

PyObject* store_capsule(PyObject* /*module*/, PyObject* /*none*/) {
  return PyCapsule_New(store_handler(), "xla._CUSTOM_CALL_TARGET", nullptr);
}

PyObject* count_stored(PyObject* /*module*/, PyObject* /*none*/) {
  return PyLong_FromUnsignedLongLong(bytes_stored());
}

PyMethodDef methods[] = {
    {"lend", lend, METH_VARARGS, "A DLPack capsule over memory that outlives it."},
    {"store_handler", store_capsule, METH_NOARGS, "The handler of torch_trainium.store."},
    {"bytes_stored", count_stored, METH_NOARGS, "Bytes copied out of XLA's buffers so far."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "_xla_buffers",
                          "How programs of XLA:CPU reach memory that is not XLA's.",
                          -1,
                          methods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace
}  // namespace torch_trainium::xla_cpu

PyMODINIT_FUNC PyInit__xla_buffers() {
  PyObject* module = PyModule_Create(&torch_trainium::xla_cpu::definition);
  if (module != nullptr && !torch_trainium::xla_cpu::add_program_type(module)) {
    Py_CLEAR(module);
  }
  return module;
}
