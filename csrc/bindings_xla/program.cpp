#include "bindings_xla/program.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/loaded_program.h"

namespace torch_trainium::xla_cpu {
namespace {

using runtime::kRaised;
using runtime::ProgramNumber;

// What an array lent to XLA is aligned to.
constexpr size_t kAlignmentBytes = 64;
// Arrays lent to XLA that are kept for the next run with the same address and type.
constexpr size_t kMaxLoans = 1 << 14;

class Reference {
 public:
  Reference() = default;
  explicit Reference(PyObject* owned) : object_(owned) {}
  Reference(Reference&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Reference& operator=(Reference&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Reference() { Py_XDECREF(object_); }
  static Reference borrowed(PyObject* object) { return Reference(Py_XNewRef(object)); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

struct LoanKey {
  uint64_t address;
  PyObject* type;  // one object for all arrays of its element type and shape, never freed
  bool operator==(const LoanKey&) const = default;
};

struct LoanHash {
  size_t operator()(const LoanKey& key) const {
    return (key.address ^ (reinterpret_cast<uint64_t>(key.type) << 20)) * 0x9E3779B97F4A7C15U;
  }
};

// XLA's array over the bytes at an address; null with a Python exception set.
Reference lend(PyObject* lend_once, uint64_t address, PyObject* type) {
  static auto& loans = *new std::unordered_map<LoanKey, Reference, LoanHash>;
  const LoanKey key{address, type};
  const auto known = loans.find(key);
  if (known != loans.end()) return Reference::borrowed(known->second.get());
  const Reference number(PyLong_FromUnsignedLongLong(address));
  Reference loan(PyObject_CallFunctionObjArgs(lend_once, number.get(), type, nullptr));
  if (!loan) return loan;
  if (loans.size() >= kMaxLoans) loans.clear();
  loans.emplace(key, Reference::borrowed(loan.get()));
  return loan;
}

struct Freed {
  void operator()(std::byte* memory) const { std::free(memory); }
};

// The numbers of one run: scalars, the error, addresses of outputs. XLA reads them in place, so
// that one run at a time uses a block.
struct Block {
  std::unique_ptr<std::byte, Freed> memory;
  std::vector<Reference> lent;  // the scalars one by one, and the addresses
};

struct Program {
  PyObject_HEAD PyObject* execute;
  PyObject* lend_once;
  std::vector<PyObject*>* input_types;
  std::vector<PyObject*>* number_types;
  PyObject* address_type;
  size_t outputs;
  bool has_error;
  std::vector<Block>* idle_blocks;
};

size_t error_at(const Program& program) { return program.number_types->size() * kAlignmentBytes; }
size_t addresses_at(const Program& program) { return error_at(program) + kAlignmentBytes; }

bool make_block(const Program& program, Block& block) {
  const size_t stores = program.outputs + (program.has_error ? 1 : 0);
  const size_t bytes = addresses_at(program) + stores * sizeof(uint64_t);
  const size_t rounded = (bytes + kAlignmentBytes) / kAlignmentBytes * kAlignmentBytes;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignmentBytes, rounded));
  if (memory == nullptr) {
    PyErr_NoMemory();
    return false;
  }
  block.memory.reset(memory);
  std::memset(memory, 0, rounded);
  const auto lend_part = [&](size_t offset, PyObject* type) {
    const Reference number(
        PyLong_FromUnsignedLongLong(reinterpret_cast<uint64_t>(memory + offset)));
    block.lent.emplace_back(
        PyObject_CallFunctionObjArgs(program.lend_once, number.get(), type, nullptr));
    return static_cast<bool>(block.lent.back());
  };
  for (size_t i = 0; i < program.number_types->size(); ++i) {
    if (!lend_part(i * kAlignmentBytes, (*program.number_types)[i])) return false;
  }
  if (program.has_error) {
    const auto error = reinterpret_cast<uint64_t>(memory + error_at(program));
    std::memcpy(memory + addresses_at(program) + program.outputs * sizeof(uint64_t), &error,
                sizeof error);
  }
  return lend_part(addresses_at(program), program.address_type);
}

// What to execute the program with; null with a Python exception set.
Reference arguments_in(const Program& program, const Block& block, const uint64_t* inputs,
                       const ProgramNumber* numbers, const uint64_t* outputs) {
  std::byte* memory = block.memory.get();
  for (size_t i = 0; i < program.number_types->size(); ++i) {
    std::memcpy(memory + i * kAlignmentBytes, numbers[i].data(), sizeof(ProgramNumber));
  }
  if (program.outputs > 0) {
    std::memcpy(memory + addresses_at(program), outputs, program.outputs * sizeof(uint64_t));
  }
  const size_t taken = program.input_types->size();
  Reference arguments(PyList_New(static_cast<Py_ssize_t>(taken + block.lent.size())));
  if (!arguments) return arguments;
  for (size_t i = 0; i < taken; ++i) {
    Reference loan = lend(program.lend_once, inputs[i], (*program.input_types)[i]);
    if (!loan) return loan;
    PyList_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), loan.release());
  }
  for (size_t i = 0; i < block.lent.size(); ++i) {
    PyList_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(taken + i),
                    Py_NewRef(block.lent[i].get()));
  }
  return arguments;
}

int64_t run_block(const Program& program, const Block& block, const uint64_t* inputs,
                  const ProgramNumber* numbers, const uint64_t* outputs) {
  const Reference arguments = arguments_in(program, block, inputs, numbers, outputs);
  if (!arguments) return kRaised;
  const Reference results(PyObject_CallOneArg(program.execute, arguments.get()));
  if (!results) return kRaised;
  int32_t error = 0;
  if (program.has_error) std::memcpy(&error, block.memory.get() + error_at(program), sizeof error);
  return error;
}

int64_t run(void* self, const uint64_t* inputs, const ProgramNumber* numbers,
            const uint64_t* outputs) {
  const Program& program = *static_cast<Program*>(self);
  Block block;
  if (!program.idle_blocks->empty()) {
    block = std::move(program.idle_blocks->back());
    program.idle_blocks->pop_back();
  } else if (!make_block(program, block)) {
    return kRaised;
  }
  const int64_t error = run_block(program, block, inputs, numbers, outputs);
  program.idle_blocks->push_back(std::move(block));
  return error;
}

bool read_numbers(PyObject* sequence, size_t expected, const char* name,
                  std::vector<uint64_t>& numbers) {
  const Reference fast(PySequence_Fast(sequence, name));
  if (!fast) return false;
  const auto size = static_cast<size_t>(PySequence_Fast_GET_SIZE(fast.get()));
  if (size != expected) {
    PyErr_Format(PyExc_ValueError, "the program has %zu %s and got %zu", expected, name, size);
    return false;
  }
  for (size_t i = 0; i < size; ++i) {
    numbers.push_back(PyLong_AsUnsignedLongLong(
        PySequence_Fast_GET_ITEM(fast.get(), static_cast<Py_ssize_t>(i))));
  }
  return PyErr_Occurred() == nullptr;
}

// The arguments of a run as Python passes them.
struct RunArguments {
  std::vector<uint64_t> inputs;
  std::vector<ProgramNumber> numbers;
  std::vector<uint64_t> outputs;
};

bool parse(const Program& program, PyObject* args, RunArguments& parsed) {
  PyObject* inputs = nullptr;
  PyObject* outputs = nullptr;
  Py_buffer bytes{};
  if (PyArg_ParseTuple(args, "Oy*O", &inputs, &bytes, &outputs) == 0) return false;
  parsed.numbers.resize(program.number_types->size());
  const size_t expected = parsed.numbers.size() * sizeof(ProgramNumber);
  const bool fits = static_cast<size_t>(bytes.len) == expected;
  if (fits && expected > 0) std::memcpy(parsed.numbers.data(), bytes.buf, expected);
  PyBuffer_Release(&bytes);
  if (!fits) {
    PyErr_Format(PyExc_ValueError, "the program has %zu numbers of 16 bytes",
                 parsed.numbers.size());
    return false;
  }
  return read_numbers(inputs, program.input_types->size(), "inputs", parsed.inputs) &&
         read_numbers(outputs, program.outputs, "outputs", parsed.outputs);
}

// run(input addresses, numbers in 16 bytes each, output addresses) -> error
PyObject* run_method(PyObject* self, PyObject* args) {
  RunArguments parsed;
  if (!parse(*reinterpret_cast<Program*>(self), args, parsed)) return nullptr;
  const int64_t error =
      run(self, parsed.inputs.data(), parsed.numbers.data(), parsed.outputs.data());
  return error == kRaised ? nullptr : PyLong_FromLongLong(error);
}

// The same arguments -> what XLA executes them with. Their block stays with them for good.
PyObject* arguments_method(PyObject* self, PyObject* args) {
  const auto& program = *reinterpret_cast<Program*>(self);
  RunArguments parsed;
  if (!parse(program, args, parsed)) return nullptr;
  auto block = std::make_unique<Block>();
  if (!make_block(program, *block)) return nullptr;
  return arguments_in(program, *block.release(), parsed.inputs.data(), parsed.numbers.data(),
                      parsed.outputs.data())
      .release();
}

// A capsule of runtime::LoadedProgram that keeps the program alive.
PyObject* capsule_method(PyObject* self, PyObject* /*none*/) {
  const auto destroy = [](PyObject* capsule) {
    auto* loaded = static_cast<runtime::LoadedProgram*>(
        PyCapsule_GetPointer(capsule, runtime::kLoadedProgramCapsule));
    Py_DECREF(static_cast<PyObject*>(loaded->program));
    delete loaded;
  };
  auto loaded = std::make_unique<runtime::LoadedProgram>(runtime::LoadedProgram{self, &run});
  PyObject* capsule = PyCapsule_New(loaded.get(), runtime::kLoadedProgramCapsule, destroy);
  if (capsule == nullptr) return nullptr;
  Py_INCREF(self);
  loaded.release();
  return capsule;
}

std::vector<PyObject*>* references_of(PyObject* tuple) {
  auto* references = new std::vector<PyObject*>;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    references->push_back(Py_NewRef(PyTuple_GET_ITEM(tuple, i)));
  }
  return references;
}

// Program(execute, lend_once, input types, number types, address type, outputs, has_error)
PyObject* new_program(PyTypeObject* type, PyObject* args, PyObject* /*keywords*/) {
  PyObject* execute = nullptr;
  PyObject* lend_once = nullptr;
  PyObject* inputs = nullptr;
  PyObject* numbers = nullptr;
  PyObject* addresses = nullptr;
  Py_ssize_t outputs = 0;
  int has_error = 0;
  if (PyArg_ParseTuple(args, "OOO!O!Onp", &execute, &lend_once, &PyTuple_Type, &inputs,
                       &PyTuple_Type, &numbers, &addresses, &outputs, &has_error) == 0) {
    return nullptr;
  }
  auto* self = reinterpret_cast<Program*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->execute = Py_NewRef(execute);
  self->lend_once = Py_NewRef(lend_once);
  self->input_types = references_of(inputs);
  self->number_types = references_of(numbers);
  self->address_type = Py_NewRef(addresses);
  self->outputs = static_cast<size_t>(outputs);
  self->has_error = has_error != 0;
  self->idle_blocks = new std::vector<Block>;
  return reinterpret_cast<PyObject*>(self);
}

void free_program(PyObject* object) {
  auto* self = reinterpret_cast<Program*>(object);
  delete self->idle_blocks;
  for (PyObject* type : *self->input_types) Py_DECREF(type);
  for (PyObject* type : *self->number_types) Py_DECREF(type);
  delete self->input_types;
  delete self->number_types;
  Py_DECREF(self->address_type);
  Py_DECREF(self->lend_once);
  Py_DECREF(self->execute);
  PyTypeObject* type = Py_TYPE(object);
  type->tp_free(object);
  Py_DECREF(type);
}

PyMethodDef program_methods[] = {
    {"run", run_method, METH_VARARGS, "Run on arrays at these addresses; returns the error."},
    {"arguments", arguments_method, METH_VARARGS, "What XLA executes the same run with."},
    {"capsule", capsule_method, METH_NOARGS, "The same for C++: a runtime::LoadedProgram."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot program_slots[] = {
    {Py_tp_doc, const_cast<char*>("A loaded executable of XLA and the arguments of its runs.")},
    {Py_tp_new, reinterpret_cast<void*>(&new_program)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&free_program)},
    {Py_tp_methods, program_methods},
    {0, nullptr},
};

PyType_Spec program_spec = {"torch_trainium.engines._xla_buffers.Program", sizeof(Program), 0,
                            Py_TPFLAGS_DEFAULT, program_slots};

}  // namespace

bool add_program_type(PyObject* module) {
  const Reference type(PyType_FromSpec(&program_spec));
  return type && PyModule_AddObjectRef(module, "Program", type.get()) == 0;
}

}  // namespace torch_trainium::xla_cpu
