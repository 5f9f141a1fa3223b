// torch_trainium.hardware._costs: the cost model alone, without PyTorch.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "timeline/cost_model.h"
#include "timeline/graph_record.h"
#include "timeline/names.h"

namespace py = pybind11;
using namespace torch_trainium::timeline;

namespace {

template <size_t N>
py::tuple tuple_of(const char* const (&names)[N]) {
  py::tuple result(N);
  for (size_t i = 0; i < N; ++i) result[i] = names[i];
  return result;
}

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

  py::class_<CallRecord, std::shared_ptr<CallRecord>>(module, "Call", py::module_local())
      .def(py::init<const std::string&, const std::vector<OperandRecord>&, int64_t>(),
           py::arg("cost_class"), py::arg("operands"), py::arg("result_bytes"));

  py::class_<GraphRecord>(module, "Program", py::module_local())
      .def(py::init<std::vector<NodeRecord>>());

  py::class_<CostModel>(module, "CostModel")
      .def(py::init([](const std::map<std::string, double>& constants) {
             return CostModel(constants_from(constants));
           }),
           py::arg("constants"))
      .def("eager",
           [](const CostModel& model, const CallRecord& call) { return model.eager(call.view()); })
      .def("program",
           [](const CostModel& model, const GraphRecord& graph) {
             return model.program(graph.nodes(), graph.count());
           })
      .def("eager_run_ps",
           [](const CostModel& model, const GraphRecord& graph,
              const std::map<std::string, double>& overheads_us) {
             return model.eager_run(graph.nodes(), graph.count(), profile_from("", overheads_us));
           })
      .def("instruction_ns",
           [](const CostModel& model, const std::string& engine, double columns, double cycles) {
             return model.instruction_ns(named<Engine>(kEngineNames, engine, "engine"), columns,
                                         cycles);
           })
      .def("descriptor_ns", &CostModel::descriptor_ns)
      .def("transfer",
           [](const CostModel& model, int64_t bytes, bool to_device, int ranks) {
             const auto direction = to_device ? Direction::kHostToDevice : Direction::kDeviceToHost;
             return model.transfer(bytes, direction, ranks);
           })
      .def("collective", [](const CostModel& model, const std::string& kind, int64_t bytes,
                            const std::tuple<int32_t, int32_t, int32_t>& group) {
        const auto& [ranks, chips, nodes] = group;
        return model.collective(named<Collective>(kCollectiveNames, kind, "collective"), bytes,
                                {ranks, chips, nodes});
      });
}
