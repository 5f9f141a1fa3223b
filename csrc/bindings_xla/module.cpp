// torch_trainium.engines._xla_buffers: how programs of XLA:CPU reach memory that is not XLA's.
//
// Inputs are lent as DLPack tensors over the caller's bytes. Outputs leave through a custom call,
// `torch_trainium.store`, whose first operand holds the addresses to write the others to: XLA
// cannot be given a result buffer, and donating a lent one silently copies it.
#include <Python.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "xla/ffi/api/c_api.h"

namespace {

std::atomic<uint64_t> stored_bytes{0};

int64_t bits_of(XLA_FFI_DataType type) {
  switch (type) {
    case XLA_FFI_DataType_S16:
    case XLA_FFI_DataType_U16:
    case XLA_FFI_DataType_F16:
    case XLA_FFI_DataType_BF16:
      return 16;
    case XLA_FFI_DataType_S32:
    case XLA_FFI_DataType_U32:
    case XLA_FFI_DataType_F32:
      return 32;
    case XLA_FFI_DataType_S64:
    case XLA_FFI_DataType_U64:
    case XLA_FFI_DataType_F64:
    case XLA_FFI_DataType_C64:
      return 64;
    case XLA_FFI_DataType_C128:
      return 128;
    default:
      return 8;
  }
}

struct Store {
  std::byte* to;
  const std::byte* from;
  size_t bytes;

  bool overwrites(const Store& other) const {
    return to < other.from + other.bytes && other.from < to + bytes;
  }
};

XLA_FFI_Error* store(XLA_FFI_CallFrame* frame) {
  for (XLA_FFI_Extension_Base* extension = frame->extension_start; extension != nullptr;
       extension = extension->next) {
    if (extension->type != XLA_FFI_Extension_Metadata) continue;
    XLA_FFI_Metadata& metadata =
        *reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
    metadata.api_version.major_version = XLA_FFI_API_MAJOR;
    metadata.api_version.minor_version = XLA_FFI_API_MINOR;
    return nullptr;
  }
  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return nullptr;
  const auto operand = [frame](int64_t i) -> const XLA_FFI_Buffer& {
    return *static_cast<const XLA_FFI_Buffer*>(frame->args.args[i]);
  };
  const auto* addresses = static_cast<const uint64_t*>(operand(0).data);
  std::vector<Store> stores;
  for (int64_t i = 1; i < frame->args.size; ++i) {
    const XLA_FFI_Buffer& value = operand(i);
    int64_t bits = bits_of(value.dtype);
    for (int64_t d = 0; d < value.rank; ++d) bits *= value.dims[d];
    stores.push_back({reinterpret_cast<std::byte*>(addresses[i - 1]),
                      static_cast<const std::byte*>(value.data), static_cast<size_t>(bits / 8)});
  }
  // A value may be a program input that an earlier store is about to overwrite.
  std::vector<std::unique_ptr<std::byte[]>> saved;
  for (size_t later = 1; later < stores.size(); ++later) {
    const bool lost = std::any_of(stores.begin(), stores.begin() + static_cast<ptrdiff_t>(later),
                                  [&](const Store& s) { return s.overwrites(stores[later]); });
    if (!lost) continue;
    saved.push_back(std::make_unique<std::byte[]>(stores[later].bytes));
    std::memcpy(saved.back().get(), stores[later].from, stores[later].bytes);
    stores[later].from = saved.back().get();
  }
  uint64_t bytes = 0;
  for (const Store& s : stores) {
    std::memmove(s.to, s.from, s.bytes);
    bytes += s.bytes;
  }
  stored_bytes.fetch_add(bytes, std::memory_order_relaxed);
  return nullptr;
}

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

PyObject* store_handler(PyObject* /*module*/, PyObject* /*none*/) {
  return PyCapsule_New(reinterpret_cast<void*>(&store), "xla._CUSTOM_CALL_TARGET", nullptr);
}

PyObject* bytes_stored(PyObject* /*module*/, PyObject* /*none*/) {
  return PyLong_FromUnsignedLongLong(stored_bytes.load(std::memory_order_relaxed));
}

PyMethodDef methods[] = {
    {"lend", lend, METH_VARARGS, "A DLPack capsule over memory that outlives it."},
    {"store_handler", store_handler, METH_NOARGS, "The handler of torch_trainium.store."},
    {"bytes_stored", bytes_stored, METH_NOARGS, "Bytes copied out of XLA's buffers so far."},
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

PyMODINIT_FUNC PyInit__xla_buffers() { return PyModule_Create(&definition); }
