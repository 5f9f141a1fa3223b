#include "bindings/compiled_eager.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "aten/compiled_eager.h"
#include "aten/signature.h"
#include "core/device.h"
#include "core/generator.h"

namespace torch_trainium {
namespace {

namespace py = pybind11;
using torch::jit::Stack;

// Lets a Python exception pass through the dispatcher.
[[noreturn]] void rethrow(py::error_already_set& error) {
  error.restore();
  python_error raised;
  raised.persist();
  throw std::move(raised);
}

// Objects are dropped on threads that may not hold the GIL, and by the dispatcher at
// the very end, when there is no Python any more.
class Held {
 public:
  explicit Held(py::object object) : object_(std::move(object)) {}
  ~Held() {
    if (Py_IsInitialized() == 0) {
      object_.release();
      return;
    }
    const py::gil_scoped_acquire gil;
    object_ = py::object();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  const py::object& get() const { return object_; }

 private:
  py::object object_;
};

// A prepared call is a Python function without arguments.
class PythonCall final : public PreparedCall {
 public:
  PythonCall(const c10::FunctionSchema& schema, py::object run)
      : schema_(schema), run_(std::move(run)) {}

  void run(Stack* stack) override {
    const py::gil_scoped_acquire gil;
    py::object results;
    try {
      results = run_.get()();
    } catch (py::error_already_set& error) {
      rethrow(error);
    }
    torch::jit::drop(*stack, schema_.arguments().size());
    const auto& returns = schema_.returns();
    if (returns.size() == 1) {
      stack->push_back(as_value(results, returns[0].type()));
      return;
    }
    for (size_t i = 0; i < returns.size(); ++i) {
      stack->push_back(as_value(results[py::int_(i)], returns[i].type()));
    }
  }

 private:
  static c10::IValue as_value(const py::handle& result, const c10::TypePtr& type) {
    if (THPVariable_Check(result.ptr())) return THPVariable_Unpack(result.ptr());
    if (result.is_none()) return at::Tensor();
    return torch::jit::toIValue(result, type);
  }

  const c10::FunctionSchema& schema_;
  const Held run_;
};

// PyTorch's enumerations are integers on the stack.
py::object as_object(const c10::IValue& value, const c10::Type& type) {
  if (value.isNone()) return py::none();
  const c10::Type& plain =
      type.kind() == c10::TypeKind::OptionalType ? *type.containedType(0) : type;
  switch (plain.kind()) {
    case c10::TypeKind::ScalarTypeType:
      return py::reinterpret_borrow<py::object>(
          reinterpret_cast<PyObject*>(torch::getTHPDtype(value.toScalarType())));
    case c10::TypeKind::LayoutType:
      return py::reinterpret_borrow<py::object>(
          reinterpret_cast<PyObject*>(torch::getTHPLayout(value.toLayout())));
    case c10::TypeKind::MemoryFormatType:
      return py::reinterpret_borrow<py::object>(
          torch::utils::getTHPMemoryFormat(value.toMemoryFormat()));
    default:
      return torch::jit::toPyObject(value);
  }
}

// The programs of an operator are a Python function of the list of its arguments
// that returns a prepared call, or the text of why there is none.
class PythonPrograms final : public OperatorPrograms {
 public:
  PythonPrograms(const c10::OperatorHandle& op, py::object prepare)
      : schema_(op.schema()), prepare_(std::move(prepare)) {}

  std::unique_ptr<PreparedCall> prepare(const Stack& stack, std::string& refusal) override {
    const py::gil_scoped_acquire gil;
    const size_t count = schema_.arguments().size();
    py::list arguments(count);
    for (size_t i = 0; i < count; ++i) {
      arguments[i] =
          as_object(stack[stack.size() - count + i], *schema_.arguments()[i].real_type());
    }
    py::object prepared;
    try {
      prepared = prepare_.get()(std::move(arguments));
    } catch (py::error_already_set& error) {
      rethrow(error);
    }
    if (py::isinstance<py::str>(prepared)) {
      refusal = py::cast<std::string>(prepared);
      return nullptr;
    }
    return std::make_unique<PythonCall>(schema_, std::move(prepared));
  }

 private:
  const c10::FunctionSchema schema_;
  const Held prepare_;
};

// A provider is a Python function from an overload's name to its programs.
class PythonProvider final : public ProgramProvider {
 public:
  explicit PythonProvider(py::object programs_of) : programs_of_(std::move(programs_of)) {}

  std::unique_ptr<OperatorPrograms> programs_of(const c10::OperatorHandle& op) override {
    const py::gil_scoped_acquire gil;
    try {
      return std::make_unique<PythonPrograms>(op, programs_of_.get()(qualified_name(op)));
    } catch (py::error_already_set& error) {
      rethrow(error);
    }
  }

 private:
  const Held programs_of_;
};

void set_provider(py::object programs_of) {
  std::shared_ptr<ProgramProvider> provider;
  if (!programs_of.is_none()) provider = std::make_shared<PythonProvider>(std::move(programs_of));
  const py::gil_scoped_release no_gil;
  set_program_provider(std::move(provider));
}

// The new tensors of a call, without passing the user's function modes.
class ResultTensors {
 public:
  explicit ResultTensors(const py::list& descriptions) {
    for (const py::handle& description : descriptions) {
      const auto row = py::cast<py::tuple>(description);
      TORCH_CHECK_TYPE(THPDtype_Check(row[0].ptr()), "a result's description starts with a dtype");
      rows_.push_back({reinterpret_cast<THPDtype*>(row[0].ptr())->scalar_type,
                       py::cast<std::vector<int64_t>>(row[1]),
                       py::cast<std::vector<int64_t>>(row[2])});
    }
  }

  std::vector<at::Tensor> allocate(const c10::Device& device) const {
    std::vector<at::Tensor> tensors;
    tensors.reserve(rows_.size());
    for (const Row& row : rows_) {
      tensors.push_back(at::empty_strided(row.sizes, row.strides,
                                          at::TensorOptions().dtype(row.dtype).device(device)));
    }
    return tensors;
  }

 private:
  struct Row {
    c10::ScalarType dtype;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
  };
  std::vector<Row> rows_;
};

std::pair<uint64_t, uint64_t> reserve(const std::optional<at::Generator>& generator,
                                      const c10::Device& device, int64_t elements) {
  const RandomStream stream = reserve_random(generator, device, elements);
  return {stream.seed, stream.offset};
}

}  // namespace

void bind_compiled_eager(py::module_& parent) {
  py::module_ m = parent.def_submodule("programs", "Compiled eager.");
  m.def("set_provider", &set_provider);
  m.def("reserve_random", &reserve);
  m.def("host_offset", [] { return runtime_or_raise().host_offset(); });
  py::class_<ResultTensors>(m, "ResultTensors")
      .def(py::init<const py::list&>())
      .def("allocate", &ResultTensors::allocate);
}

}  // namespace torch_trainium
