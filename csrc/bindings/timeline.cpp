#include "bindings/timeline.h"

#include <array>
#include <map>
#include <string>

#include "bindings/scope_recorder.h"
#include "core/device.h"
#include "core/host_time.h"
#include "core/operator_names.h"
#include "runtime/timing_model.h"
#include "timeline/timeline.h"

namespace torch_trainium {
namespace {

namespace py = pybind11;
using timeline::Bound;
using timeline::CostClass;
using timeline::Queue;

// By the order of the enums.
constexpr std::array kClassNames{
#define TORCH_TRAINIUM_CLASS(name, text) text,
    TORCH_TRAINIUM_COST_CLASSES(TORCH_TRAINIUM_CLASS)
#undef TORCH_TRAINIUM_CLASS
};
constexpr std::array kQueueNames{"compute", "copy_in", "copy_out", "collective"};
constexpr std::array kBoundNames{"launch", "tensor", "vector", "scalar",
                                 "gpsimd", "dma",    "host",   "collective"};

template <typename Names, typename Enum>
const char* name_of(const Names& names, Enum value) {
  return names[static_cast<size_t>(value)];
}

// Python says a thread has ended before the operating system ends it, so the
// clock is retired with the thread's Python state: whoever joins it sees its time.
void retire_with_python_thread(const std::shared_ptr<timeline::HostClock>& clock) {
  if (PyGILState_GetThisThreadState() == nullptr) return;
  const py::gil_scoped_acquire gil;
  PyObject* state = PyThreadState_GetDict();
  if (state == nullptr) return;
  auto* kept = new std::shared_ptr<timeline::HostClock>(clock);
  const py::capsule retirement(kept, [](void* pointer) {
    auto* clock = static_cast<std::shared_ptr<timeline::HostClock>*>(pointer);
    (*clock)->retire();
    delete clock;
  });
  PyDict_SetItemString(state, "torch_trainium.host_clock", retirement.ptr());
}

using Numbers = std::map<std::string, double>;

void set_timing_provider(const py::object& provider) {
  // Leaked: it may be asked when the interpreter is gone.
  auto* source = new py::object(provider);
  set_timing_source([source] {
    const py::gil_scoped_acquire gil;
    const auto [devices_per_chip, constants, name, profile] =
        (*source)().cast<std::tuple<int, Numbers, std::string, Numbers>>();
    return runtime::TimingModel{devices_per_chip, timeline::constants_from(constants),
                                timeline::profile_from(name, profile)};
  });
}

timeline::Timeline& virtual_timeline() {
  timeline::Timeline* timeline = runtime_or_raise().virtual_timeline();
  TORCH_CHECK(timeline != nullptr, "this device's clock is not virtual");
  return *timeline;
}

template <size_t N>
py::tuple tuple_of(const int64_t (&values)[N]) {
  py::tuple result(N);
  for (size_t i = 0; i < N; ++i) result[i] = values[i];
  return result;
}

py::dict totals(c10::DeviceIndex device) {
  py::dict by_name;
  for (const auto& [id, total] : virtual_timeline().totals(resolve_device(device))) {
    py::dict entry;
    entry["calls"] = total.calls;
    entry["launch_bound_calls"] = total.launch_bound_calls;
    entry["device_ps"] = total.device_ps;
    entry["idle_ps"] = total.idle_ps;
    entry["engine_ps"] = tuple_of(total.engine_ps);
    entry["flops"] = total.flops;
    entry["hbm_bytes"] = total.hbm_bytes;
    by_name[py::str(operator_name(id))] = entry;
  }
  return by_name;
}

// One tuple a record, in the order of torch_trainium.neuron's WorkRecord, with
// the module's number for its name.
py::list records_of(const ScopeRecorder& recorder, const std::vector<ScopeRecord>& records) {
  py::list list;
  for (const ScopeRecord& record : records) {
    const timeline::Cost& cost = record.placement.cost;
    list.append(py::make_tuple(
        operator_name(record.operator_id), name_of(kClassNames, record.cost_class), record.device,
        record.stream, name_of(kQueueNames, record.placement.queue), record.placement.issued_ps,
        record.placement.start_ps, record.placement.end_ps, tuple_of(cost.engine_ps), cost.flops,
        cost.hbm_bytes, name_of(kBoundNames, cost.bound), record.origin.module,
        recorder.line_text(record.origin.line), record.is_backward, record.allocated_bytes));
  }
  return list;
}

}  // namespace

void bind_timeline(py::module_& parent) {
  py::module_ m = parent.def_submodule("timeline");
  timeline::HostClock::set_new_thread_hook(&retire_with_python_thread);
  m.def("set_timing_provider", &set_timing_provider);
  m.def("profile_name", [] { return virtual_timeline().profile().name; });
  m.def("totals", &totals);
  m.def("set_charging", [](bool enabled) { virtual_timeline().set_charging(enabled); });
  m.def("reset_totals", [] { virtual_timeline().reset_totals(); });
  m.def("occupy", [](int64_t duration_ps) {
    const c10::DeviceIndex device = current_device();
    timeline::Timeline& timeline = virtual_timeline();
    follow_calling_thread();
    timeline.occupy(device, current_stream(device).id(), duration_ps,
                    timeline::HostClock::of_this_thread());
  });
  m.def("host_ps", [] {
    follow_calling_thread();
    return timeline::HostClock::of_this_thread().now_ps();
  });
  m.def("device_ps", [](c10::DeviceIndex device) {
    return virtual_timeline().device_end_ps(resolve_device(device));
  });

  m.def("start_scope", [](std::vector<std::string> internal_folders) {
    ScopeRecorder::instance().start(std::move(internal_folders));
  });
  m.def("stop_scope", [] {
    ScopeRecorder& recorder = ScopeRecorder::instance();
    return records_of(recorder, recorder.stop());
  });
  m.def("is_scope_open", [] { return ScopeRecorder::instance().is_recording(); });
  m.def("enter_module", [](uint32_t module) { ScopeRecorder::instance().enter_module(module); });
  m.def("leave_module", [] { ScopeRecorder::instance().leave_module(); });
}

}  // namespace torch_trainium
