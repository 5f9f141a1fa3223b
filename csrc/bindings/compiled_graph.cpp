#include "bindings/compiled_graph.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "aten/call_description.h"
#include "aten/host_engine.h"
#include "aten/operator_record.h"
#include "bindings/plain_call.h"
#include "core/device.h"
#include "core/generator.h"
#include "core/host_time.h"
#include "timeline/graph_record.h"

namespace torch_trainium {
namespace {

namespace py = pybind11;

constexpr uintptr_t kAlignmentBytes = 64;

c10::ScalarType dtype_of(const py::handle& object) {
  TORCH_CHECK_TYPE(THPDtype_Check(object.ptr()), "a dtype is expected here");
  return reinterpret_cast<THPDtype*>(object.ptr())->scalar_type;
}

const runtime::LoadedProgram* program_in(const py::object& capsule) {
  const auto* program = static_cast<runtime::LoadedProgram*>(
      PyCapsule_GetPointer(capsule.ptr(), runtime::kLoadedProgramCapsule));
  if (program == nullptr) throw py::error_already_set();
  return program;
}

// A tensor on the device: where its elements lie, from an aligned address on.
struct Layout {
  c10::ScalarType dtype;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  uintptr_t offset_bytes;

  explicit Layout(const py::tuple& row) {
    dtype = dtype_of(row[0]);
    sizes = py::cast<std::vector<int64_t>>(row[1]);
    strides = py::cast<std::vector<int64_t>>(row[2]);
    offset_bytes = py::cast<uintptr_t>(row[3]);
  }

  bool fits(const at::Tensor& tensor, c10::Device device) const {
    if (tensor.scalar_type() != dtype || tensor.device() != device || tensor.sizes() != sizes ||
        tensor.strides() != strides || tensor.is_conj() || tensor.is_neg() ||
        tensor._is_zerotensor()) {
      return false;
    }
    return address_of(tensor) % kAlignmentBytes == offset_bytes;
  }

  static uintptr_t address_of(const at::Tensor& tensor) {
    return reinterpret_cast<uintptr_t>(tensor.unsafeGetTensorImpl()->data());
  }
};

// What the graph was compiled for at one position of its arguments.
struct Expectation {
  std::optional<Layout> layout;          // a tensor on the device
  std::optional<c10::ScalarType> dtype;  // a zero-dim CPU tensor, which is a number
  py::object constant;                   // anything else

  bool holds(const py::handle& argument, c10::Device device) const {
    if (!layout && !dtype) {
      return constant.is(argument) ||
             (Py_TYPE(constant.ptr()) == Py_TYPE(argument.ptr()) && constant.equal(argument));
    }
    if (!THPVariable_Check(argument.ptr())) return false;
    const at::Tensor& tensor = THPVariable_Unpack(argument.ptr());
    if (layout) return layout->fits(tensor, device);
    return tensor.is_cpu() && tensor.dim() == 0 && tensor.scalar_type() == *dtype;
  }
};

struct Result {
  Layout layout;
  std::optional<size_t> written;  // the argument that it is
};

using CallRow = std::tuple<std::string, std::vector<timeline::OperandRecord>, int64_t>;
using NodeRow = std::tuple<CallRow, std::vector<int32_t>, bool, bool, std::string,
                           std::tuple<int32_t, int32_t, int32_t>>;

std::unique_ptr<timeline::GraphRecord> graph_of(const std::vector<NodeRow>& rows) {
  std::vector<timeline::NodeRecord> records;
  records.reserve(rows.size());
  for (const auto& [call, producers, is_output, is_fused, collective, group] : rows) {
    const auto& [cost_class, operands, result_bytes] = call;
    records.emplace_back(std::make_shared<timeline::CallRecord>(cost_class, operands, result_bytes),
                         producers, is_output, is_fused, collective, group);
  }
  return std::make_unique<timeline::GraphRecord>(std::move(records));
}

// A graph that has run, for the cost model and for those who watch the order of work.
class GraphCall final : public timeline::CallSource {
 public:
  GraphCall(const timeline::GraphRecord& graph, c10::ArrayRef<at::Tensor> read,
            c10::ArrayRef<at::Tensor> written, int64_t new_bytes, int16_t device)
      : graph_(graph), read_(read), written_(written), new_bytes_(new_bytes), device_(device) {}

  timeline::OperatorCall describe(std::vector<timeline::Operand>& operands) const override {
    operands.clear();
    for (const at::Tensor& tensor : read_) {
      operands.push_back(operand_of(*tensor.unsafeGetTensorImpl(), false, device_));
    }
    timeline::OperatorCall call = {timeline::CostClass::kPointwise, operands.data(),
                                   static_cast<int>(operands.size()), new_bytes_};
    call.graph = &graph_;
    return call;
  }

  void add_accesses(std::vector<timeline::Access>& accesses) const override {
    for (const at::Tensor& tensor : read_) {
      accesses.push_back(access_to(*tensor.unsafeGetTensorImpl(), false, false));
    }
    for (const at::Tensor& tensor : written_) {
      accesses.push_back(access_to(*tensor.unsafeGetTensorImpl(), true, false));
    }
  }

 private:
  const timeline::GraphRecord& graph_;
  c10::ArrayRef<at::Tensor> read_;
  c10::ArrayRef<at::Tensor> written_;
  int64_t new_bytes_;
  int16_t device_;
};

// A compiled graph for arguments of one kind: it checks that they are, allocates the
// results, and runs the program as one unit of work.
class GraphProgram {
 public:
  // An expectation is ("tensor", layout), ("number", dtype) or ("constant", object); a
  // layout (dtype, sizes, strides, bytes after an aligned address); a result (layout,
  // position of the argument that it is written to or None); a number (position of the
  // argument, or -1 to -4 for the words of the random state; dtype). `program` is the capsule
  // of a LoadedProgram, or None where there is nothing to compute; an error of it is an index
  // into `checks` plus one.
  GraphProgram(const std::string& name, c10::DeviceIndex device, const py::list& expectations,
               std::vector<size_t> inputs, const py::list& numbers, const py::list& results,
               int64_t random_positions, int64_t workspace_bytes, const std::vector<NodeRow>& nodes,
               py::object program, py::list checks)
      : record_(operator_record(name)),
        device_(kNeuron, device),
        inputs_(std::move(inputs)),

        random_positions_(random_positions),
        workspace_bytes_(workspace_bytes),
        graph_(graph_of(nodes)),
        capsule_(std::move(program)),
        program_(capsule_.is_none() ? nullptr : program_in(capsule_)),
        checks_(std::move(checks)) {
    for (const py::handle& item : numbers) {
      const auto row = py::cast<py::tuple>(item);
      numbers_.push_back({py::cast<int64_t>(row[0]), dtype_of(row[1])});
    }
    for (const py::handle& row : expectations) expectations_.push_back(expectation_of(row));
    for (const py::handle& item : results) {
      const auto row = py::cast<py::tuple>(item);
      results_.push_back({Layout(row[0]), py::cast<std::optional<size_t>>(row[1])});
    }
  }

  // The new results, or None where the graph was not compiled for such arguments.
  py::object run(const py::list& arguments) {
    if (!accepts(arguments)) return py::none();
    runtime::Runtime& runtime = timed_runtime();
    const c10::DeviceGuard guard(device_);
    const c10::impl::ForceDispatchKeyGuard below_user_features(
        c10::DispatchKeySet(c10::DispatchKey::BackendSelect), keys_above_backend());
    std::optional<at::RecordFunctionGuard> unprofiled;
    if (C10_UNLIKELY(at::hasCallbacks())) unprofiled.emplace(false);

    const auto to_host = static_cast<uint64_t>(runtime.host_offset());
    std::vector<at::Tensor> read;
    std::vector<uint64_t> read_addresses;
    for (const size_t position : inputs_) {
      read.push_back(tensor_at(arguments, position));
      const uintptr_t address = Layout::address_of(read.back());
      read_addresses.push_back(address / kAlignmentBytes * kAlignmentBytes + to_host);
    }
    std::vector<at::Tensor> written;
    std::vector<uint64_t> written_addresses;
    py::list made;
    int64_t new_bytes = 0;
    for (const Result& result : results_) {
      const Layout& layout = result.layout;
      if (result.written) {
        written.push_back(tensor_at(arguments, *result.written));
      } else {
        written.push_back(at::empty_strided(
            layout.sizes, layout.strides, at::TensorOptions().dtype(layout.dtype).device(device_)));
        made.append(py::reinterpret_steal<py::object>(THPVariable_Wrap(written.back())));
        new_bytes += static_cast<int64_t>(written.back().nbytes());
      }
      if (written.back().numel() == 0) continue;
      written_addresses.push_back(Layout::address_of(written.back()) - layout.offset_bytes +
                                  to_host);
    }
    // What the program keeps beside its results while it runs.
    at::Tensor workspace;
    if (workspace_bytes_ > 0) {
      workspace =
          at::empty({workspace_bytes_}, at::TensorOptions().dtype(at::kByte).device(device_));
    }
    const std::vector<runtime::ProgramNumber> numbers = numbers_of(arguments);
    int64_t error = 0;
    auto body = [&] {
      if (program_ == nullptr) return;
      error = program_->run(program_->program, read_addresses.data(), numbers.data(),
                            written_addresses.data());
    };
    record_.calls.fetch_add(1, std::memory_order_relaxed);
    const GraphCall call(*graph_, read, written, new_bytes, device_.index());
    runtime.submit({runtime::WorkKind::kKernel, device_.index(),
                    current_stream(device_.index()).id(), record_.id, &call,
                    /*host_waits=*/false,
                    [](void* context) { (*static_cast<decltype(body)*>(context))(); }, &body});
    if (error != 0) raise(error);
    return made;
  }

 private:
  static Expectation expectation_of(const py::handle& item) {
    const auto row = py::cast<py::tuple>(item);
    const auto kind = py::cast<std::string>(row[0]);
    if (kind == "tensor") return {Layout(row[1]), std::nullopt, py::none()};
    if (kind == "number") {
      return {std::nullopt, dtype_of(row[1]), py::none()};
    }
    return {std::nullopt, std::nullopt, row[1]};
  }

  static const at::Tensor& tensor_at(const py::list& arguments, size_t position) {
    return THPVariable_Unpack(PyList_GET_ITEM(arguments.ptr(), static_cast<Py_ssize_t>(position)));
  }

  bool accepts(const py::list& arguments) const {
    if (arguments.size() != expectations_.size()) return false;
    for (size_t i = 0; i < expectations_.size(); ++i) {
      const PyObject* argument = PyList_GET_ITEM(arguments.ptr(), static_cast<Py_ssize_t>(i));
      if (!expectations_[i].holds(const_cast<PyObject*>(argument), device_)) return false;
    }
    return true;
  }

  std::vector<runtime::ProgramNumber> numbers_of(const py::list& arguments) const {
    std::array<uint32_t, 4> words{};
    if (random_positions_ > 0) {
      const RandomStream stream = reserve_random(std::nullopt, device_, random_positions_);
      words = {static_cast<uint32_t>(stream.seed), static_cast<uint32_t>(stream.seed >> 32),
               static_cast<uint32_t>(stream.offset), static_cast<uint32_t>(stream.offset >> 32)};
    }
    std::vector<runtime::ProgramNumber> numbers;
    for (const PlainNumber& number : numbers_) {
      const c10::Scalar value =
          number.source < 0
              ? c10::Scalar(static_cast<int64_t>(words[static_cast<size_t>(-1 - number.source)]))
              : tensor_at(arguments, static_cast<size_t>(number.source)).item();
      numbers.push_back(program_number(value, number.dtype));
    }
    return numbers;
  }

  [[noreturn]] void raise(int64_t error) const {
    if (error == runtime::kRaised) throw py::error_already_set();
    const auto check = py::cast<py::tuple>(checks_[static_cast<size_t>(error - 1)]);
    PyErr_SetObject(check[0].ptr(), check[1].ptr());
    throw py::error_already_set();
  }

  OperatorRecord& record_;
  const c10::Device device_;
  std::vector<Expectation> expectations_;
  std::vector<size_t> inputs_;
  std::vector<PlainNumber> numbers_;
  std::vector<Result> results_;
  const int64_t random_positions_;
  const int64_t workspace_bytes_;
  const std::unique_ptr<timeline::GraphRecord> graph_;
  const py::object capsule_;
  const runtime::LoadedProgram* const program_;
  const py::list checks_;
};

}  // namespace

void bind_compiled_graph(py::module_& parent) {
  py::module_ m = parent.def_submodule("graphs", "Compiled graphs.");
  py::class_<GraphProgram>(m, "GraphProgram")
      .def(py::init<const std::string&, c10::DeviceIndex, const py::list&, std::vector<size_t>,
                    const py::list&, const py::list&, int64_t, int64_t, const std::vector<NodeRow>&,
                    py::object, py::list>(),
           py::kw_only(), py::arg("name"), py::arg("device"), py::arg("expectations"),
           py::arg("inputs"), py::arg("numbers"), py::arg("results"), py::arg("random_positions"),
           py::arg("workspace_bytes"), py::arg("nodes"), py::arg("program"), py::arg("checks"))
      .def("run", &GraphProgram::run);
}

}  // namespace torch_trainium
