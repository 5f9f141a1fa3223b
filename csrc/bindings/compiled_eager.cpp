#include "bindings/compiled_eager.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "aten/compiled_eager.h"
#include "aten/signature.h"
#include "bindings/call_arguments.h"
#include "bindings/plain_call.h"
#include "bindings/python_calls.h"
#include "bindings/result_tensors.h"
#include "core/device.h"
#include "core/generator.h"

namespace torch_trainium {
namespace {

namespace py = pybind11;
using torch::jit::Stack;

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

// A call whose program needs no Python code.
class PreparedPlainCall final : public PreparedCall {
 public:
  PreparedPlainCall(std::shared_ptr<const PlainCall> call, CallArguments arguments, size_t count)
      : call_(std::move(call)), arguments_(std::move(arguments)), argument_count_(count) {}

  void run(Stack* stack) override {
    const py::gil_scoped_acquire gil;
    call_->run(arguments_, argument_count_, stack);
  }

 private:
  const std::shared_ptr<const PlainCall> call_;
  const CallArguments arguments_;
  const size_t argument_count_;
};

// By the key of a call's arguments.
using PlainCalls = std::unordered_map<std::string, std::shared_ptr<const PlainCall>>;

class PythonPrograms;

// Those of all operators, whose programs can be released.
struct Operators {
  std::mutex mutex;
  std::unordered_set<PythonPrograms*> known;
};

Operators& operators() {
  static auto* all = new Operators;  // outlives operators that are destroyed at exit
  return *all;
}

// The programs of an operator are a Python function of the list of its arguments that returns a
// prepared call, or the text of why there is none. Its attribute `plain` is what calls with the
// same key run from then on.
class PythonPrograms final : public OperatorPrograms {
 public:
  PythonPrograms(const c10::OperatorHandle& op, py::object prepare, std::vector<bool> takes_numbers)
      : schema_(op.schema()),
        prepare_(std::move(prepare)),
        takes_numbers_(std::move(takes_numbers)) {
    const std::lock_guard lock(operators().mutex);
    operators().known.insert(this);
  }
  ~PythonPrograms() override {
    const std::lock_guard lock(operators().mutex);
    operators().known.erase(this);
  }

  std::unique_ptr<PreparedCall> prepare(const Stack& stack, std::string& refusal) override {
    const size_t count = schema_.arguments().size();
    CallArguments read;
    const bool has_key =
        takes_numbers_.size() == count &&
        read_arguments(c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - count),
                       takes_numbers_, read);
    if (has_key) {
      const std::lock_guard lock(mutex_);
      const auto known = plain_calls_.find(read.key);
      if (known != plain_calls_.end()) {
        return std::make_unique<PreparedPlainCall>(known->second, std::move(read), count);
      }
    }
    const py::gil_scoped_acquire gil;
    py::object prepared = prepare_in_python(stack);
    if (py::isinstance<py::str>(prepared)) {
      refusal = py::cast<std::string>(prepared);
      return nullptr;
    }
    const py::object plain = py::getattr(prepared, "plain", py::none());
    if (has_key && !plain.is_none()) {
      const std::lock_guard lock(mutex_);
      plain_calls_.emplace(std::move(read.key), py::cast<std::shared_ptr<PlainCall>>(plain));
    }
    return std::make_unique<PythonCall>(schema_, std::move(prepared));
  }

  PlainCalls take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(plain_calls_, {});
  }

 private:
  py::object prepare_in_python(const Stack& stack) {
    const size_t count = schema_.arguments().size();
    py::list arguments(count);
    for (size_t i = 0; i < count; ++i) {
      arguments[i] =
          as_object(stack[stack.size() - count + i], *schema_.arguments()[i].real_type());
    }
    try {
      return prepare_.get()(std::move(arguments));
    } catch (py::error_already_set& error) {
      rethrow(error);
    }
  }

  const c10::FunctionSchema schema_;
  const Held prepare_;
  const std::vector<bool> takes_numbers_;
  std::mutex mutex_;
  PlainCalls plain_calls_;
};

// Lets go of the programs that calls run without Python code. A lock is never held with the GIL:
// who holds the lock may be waiting for that.
void release_programs() {
  std::vector<PlainCalls> released;
  {
    const py::gil_scoped_release no_gil;
    const std::lock_guard lock(operators().mutex);
    for (PythonPrograms* programs : operators().known) released.push_back(programs->take());
  }
}

// A provider is a Python function from an overload's name to its programs, and of each argument
// whether they take its numbers when they run.
class PythonProvider final : public ProgramProvider {
 public:
  explicit PythonProvider(py::object programs_of) : programs_of_(std::move(programs_of)) {}

  std::unique_ptr<OperatorPrograms> programs_of(const c10::OperatorHandle& op) override {
    const py::gil_scoped_acquire gil;
    try {
      const py::tuple found = programs_of_.get()(qualified_name(op));
      return std::make_unique<PythonPrograms>(op, found[0], py::cast<std::vector<bool>>(found[1]));
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

std::pair<uint64_t, uint64_t> reserve(const std::optional<at::Generator>& generator,
                                      const c10::Device& device, int64_t elements) {
  const RandomStream stream = reserve_random(generator, device, elements);
  return {stream.seed, stream.offset};
}

using ResultRow = std::tuple<int64_t, int64_t, bool>;
using ReturnRow = std::pair<bool, std::vector<int64_t>>;

std::shared_ptr<PlainCall> plain_call(py::object capsule, std::vector<int64_t> inputs,
                                      const py::list& new_tensors,
                                      const std::vector<ResultRow>& results, py::object numbers,
                                      int64_t random_positions,
                                      const std::vector<ReturnRow>& returns,
                                      py::object raise_error) {
  std::vector<PlainResult> placed;
  for (const auto& [written, offset, is_output] : results) {
    placed.push_back({written, offset, is_output});
  }
  std::vector<PlainReturn> returned;
  for (const auto& [is_list, indices] : returns) returned.push_back({is_list, indices});
  return std::make_shared<PlainCall>(
      std::move(capsule), std::move(inputs), ResultTensors(new_tensors), std::move(placed),
      std::move(numbers), random_positions, std::move(returned), std::move(raise_error));
}

}  // namespace

void bind_compiled_eager(py::module_& parent) {
  py::module_ m = parent.def_submodule("programs", "Compiled eager.");
  m.def("set_provider", &set_provider);
  m.def("release", &release_programs);
  m.def("reserve_random", &reserve);
  m.def("host_offset", [] { return runtime_or_raise().host_offset(); });
  py::class_<ResultTensors>(m, "ResultTensors")
      .def(py::init<const py::list&>())
      .def("allocate", &ResultTensors::allocate);
  py::class_<PlainCall, std::shared_ptr<PlainCall>>(m, "PlainCall")
      .def(py::init(&plain_call))
      .def_property_readonly("runs", &PlainCall::runs);
}

}  // namespace torch_trainium
