// torch_trainium.hardware._costs: the cost model alone, without PyTorch.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "timeline/cost_model.h"

namespace py = pybind11;
using namespace torch_trainium::timeline;

namespace {

constexpr const char* kClassNames[] = {
#define TORCH_TRAINIUM_CLASS(name, text) text,
    TORCH_TRAINIUM_COST_CLASSES(TORCH_TRAINIUM_CLASS)
#undef TORCH_TRAINIUM_CLASS
};
constexpr const char* kElementNames[] = {"float32",  "tf32",     "bfloat16", "float16", "float8",
                                         "mxfloat8", "mxfloat4", "int8",     "int16",   "int32",
                                         "int64",    "float64",  "complex"};
constexpr const char* kEngineNames[] = {"tensor", "vector", "scalar",
                                        "gpsimd", "dma",    "collective"};
constexpr const char* kBoundNames[] = {"launch", "tensor", "vector", "scalar",
                                       "gpsimd", "dma",    "host",   "collective"};
constexpr const char* kCollectiveNames[] = {"all_reduce", "all_gather", "reduce_scatter",
                                            "all_to_all", "broadcast",  "send_receive"};

template <typename Enum, size_t N>
Enum named(const char* const (&names)[N], const std::string& name, const char* what) {
  for (size_t i = 0; i < N; ++i) {
    if (name == names[i]) return static_cast<Enum>(i);
  }
  std::string message = std::string("no ") + what + " is called " + name + "; there are";
  for (const char* known : names) message += std::string(" ") + known;
  throw std::invalid_argument(message);
}

template <size_t N>
py::tuple tuple_of(const char* const (&names)[N]) {
  py::tuple result(N);
  for (size_t i = 0; i < N; ++i) result[i] = names[i];
  return result;
}

// sizes, element, bytes of an element, dense, permuted, written, on the host
using OperandRecord = std::tuple<std::vector<int64_t>, std::string, int, bool, bool, bool, bool>;

// An OperatorCall that owns what it points to.
class Call {
 public:
  Call(const std::string& cost_class, const std::vector<OperandRecord>& records,
       int64_t result_bytes)
      : cost_class_(named<CostClass>(kClassNames, cost_class, "cost class")),
        result_bytes_(result_bytes) {
    sizes_.reserve(records.size());
    for (const auto& [sizes, element, element_bytes, is_dense, is_permuted, is_written,
                      is_on_host] : records) {
      sizes_.push_back(sizes);
      int64_t elements = 1;
      for (const int64_t size : sizes) elements *= size;
      operands_.push_back({.sizes = sizes_.back().data(),
                           .rank = static_cast<int>(sizes.size()),
                           .element = named<Element>(kElementNames, element, "element"),
                           .element_bytes = static_cast<uint8_t>(element_bytes),
                           .is_dense = is_dense,
                           .is_written = is_written,
                           .is_on_host = is_on_host,
                           .elements = elements,
                           .is_permuted = is_permuted});
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  OperatorCall view() const {
    return {cost_class_, operands_.data(), static_cast<int>(operands_.size()), result_bytes_};
  }

 private:
  CostClass cost_class_;
  std::vector<std::vector<int64_t>> sizes_;
  std::vector<Operand> operands_;
  int64_t result_bytes_;
};

// call, producers, is an output, collective and (ranks, chips, nodes)
using NodeRecord = std::tuple<std::shared_ptr<Call>, std::vector<int32_t>, bool, std::string,
                              std::tuple<int32_t, int32_t, int32_t>>;

ReplicaGroup group_of(const std::tuple<int32_t, int32_t, int32_t>& group) {
  return {std::get<0>(group), std::get<1>(group), std::get<2>(group)};
}

// The nodes of a graph, which stay where they are while the calls they view do.
class Program {
 public:
  explicit Program(std::vector<NodeRecord> records) : records_(std::move(records)) {
    nodes_.reserve(records_.size());
    for (const auto& [call, producers, is_output, collective, group] : records_) {
      const OperatorCall view = call->view();
      if (static_cast<int>(producers.size()) != view.operand_count) {
        throw std::invalid_argument("every operand needs a producer or -1");
      }
      const int32_t here = static_cast<int32_t>(nodes_.size());
      for (const int32_t producer : producers) {
        if (producer < kGraphInput || producer >= here) {
          throw std::invalid_argument("a producer must come before its reader");
        }
      }
      nodes_.push_back({view, producers.data(), is_output,
                        named<Collective>(kCollectiveNames, collective, "collective"),
                        group_of(group)});
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Cost cost(const CostModel& model) const {
    return model.program(nodes_.data(), static_cast<int>(nodes_.size()));
  }
  int64_t eager_run_ps(const CostModel& model, const Profile& profile) const {
    return model.eager_run(nodes_.data(), static_cast<int>(nodes_.size()), profile);
  }

 private:
  std::vector<NodeRecord> records_;
  std::vector<ProgramNode> nodes_;
};

py::tuple engine_times(const Cost& cost) {
  py::tuple times(kEngines);
  for (int i = 0; i < kEngines; ++i) times[i] = cost.engine_ps[i];
  return times;
}

}  // namespace

PYBIND11_MODULE(_costs, module) {
  module.attr("COST_CLASSES") = tuple_of(kClassNames);
  module.attr("ELEMENTS") = tuple_of(kElementNames);
  module.attr("ENGINES") = tuple_of(kEngineNames);
  module.attr("COLLECTIVES") = tuple_of(kCollectiveNames);

  py::class_<Cost>(module, "Cost")
      .def_readonly("device_ps", &Cost::device_ps)
      .def_property_readonly("engine_ps", engine_times)
      .def_readonly("flops", &Cost::flops)
      .def_readonly("hbm_bytes", &Cost::hbm_bytes)
      .def_property_readonly(
          "bound", [](const Cost& cost) { return kBoundNames[static_cast<int>(cost.bound)]; });

  py::class_<Call, std::shared_ptr<Call>>(module, "Call")
      .def(py::init<const std::string&, const std::vector<OperandRecord>&, int64_t>(),
           py::arg("cost_class"), py::arg("operands"), py::arg("result_bytes"));

  py::class_<Program>(module, "Program").def(py::init<std::vector<NodeRecord>>());

  py::class_<CostModel>(module, "CostModel")
      .def(py::init([](const std::map<std::string, double>& constants) {
             return CostModel(constants_from(constants));
           }),
           py::arg("constants"))
      .def("eager",
           [](const CostModel& model, const Call& call) { return model.eager(call.view()); })
      .def("program",
           [](const CostModel& model, const Program& program) { return program.cost(model); })
      .def("eager_run_ps",
           [](const CostModel& model, const Program& program,
              const std::map<std::string, double>& overheads_us) {
             return program.eager_run_ps(model, profile_from("", overheads_us));
           })
      .def("instruction_ns",
           [](const CostModel& model, const std::string& engine, double columns, double cycles) {
             return model.instruction_ns(named<Engine>(kEngineNames, engine, "engine"), columns,
                                         cycles);
           })
      .def("descriptor_ns", &CostModel::descriptor_ns)
      .def("transfer",
           [](const CostModel& model, int64_t bytes, bool to_device) {
             return model.transfer(bytes,
                                   to_device ? Direction::kHostToDevice : Direction::kDeviceToHost);
           })
      .def("collective", [](const CostModel& model, const std::string& kind, int64_t bytes,
                            const std::tuple<int32_t, int32_t, int32_t>& group) {
        return model.collective(named<Collective>(kCollectiveNames, kind, "collective"), bytes,
                                group_of(group));
      });
}
