// The extension module torch_trainium._C.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/utils/pybind.h>

#include "aten/boxed.h"
#include "aten/host_engine.h"
#include "aten/operator_record.h"
#include "bindings/compiled_eager.h"
#include "bindings/compiled_graph.h"
#include "bindings/events.h"
#include "bindings/fallbacks.h"
#include "bindings/memory.h"
#include "bindings/sanitizer.h"
#include "bindings/timeline.h"
#include "core/device.h"
#include "core/generator.h"
#include "core/stream_order.h"

namespace torch_trainium {
namespace {

namespace py = pybind11;

void configure_machine(const py::dict& description) {
  runtime::Machine machine;
  machine.instance_type = description["instance_type"].cast<std::string>();
  machine.device_name = description["device_name"].cast<std::string>();
  machine.architecture = description["architecture"].cast<std::string>();
  machine.device_count = description["device_count"].cast<int>();
  machine.logical_core_size = description["logical_core_size"].cast<int>();
  machine.devices_per_hbm_stack = description["devices_per_hbm_stack"].cast<int>();
  machine.hbm_stack_bytes = description["hbm_stack_bytes"].cast<size_t>();
  machine.guard_device_memory = description["guard_device_memory"].cast<bool>();
  runtime::configure(machine);
}

py::dict machine() {
  const runtime::Machine& machine = runtime::configured_machine();
  py::dict description;
  description["instance_type"] = machine.instance_type;
  description["device_name"] = machine.device_name;
  description["architecture"] = machine.architecture;
  description["device_count"] = machine.device_count;
  description["logical_core_size"] = machine.logical_core_size;
  description["devices_per_hbm_stack"] = machine.devices_per_hbm_stack;
  description["hbm_stack_bytes"] = machine.hbm_stack_bytes;
  description["guard_device_memory"] = machine.guard_device_memory;
  return description;
}

py::object default_generator_object(c10::DeviceIndex device) {
  return py::reinterpret_steal<py::object>(
      THPGenerator_Wrap(default_generator(resolve_device(device))));
}

void set_log(const py::object& callback) {
  if (callback.is_none()) {
    set_operator_log({});
    return;
  }
  // Kernels run on threads without the GIL, which must be held to drop the callback too.
  const std::shared_ptr<py::object> shared(new py::object(callback), [](py::object* object) {
    const py::gil_scoped_acquire gil;
    delete object;
  });
  set_operator_log([shared](const std::string& name, const std::string& operands) {
    const py::gil_scoped_acquire gil;
    (*shared)(name, operands);
  });
}

// Finalization races with autograd's device threads unless they are stopped.
void stop_autograd_engine() {
  const py::gil_scoped_release no_gil;
  torch::autograd::Engine::get_default_engine().stop();
}

}  // namespace
}  // namespace torch_trainium

PYBIND11_MODULE(_C, m) {
  using namespace torch_trainium;  // NOLINT
  m.attr("built_for_torch") = TORCH_TRAINIUM_BUILT_FOR;
  register_boxed_kernels();
  bind_events(m);
  bind_memory(m);
  bind_timeline(m);
  bind_compiled_eager(m);
  bind_compiled_graph(m);
  bind_fallbacks(m);
  bind_sanitizer(m);

  m.def("configure_machine", &configure_machine);
  m.def("machine", &machine);
  m.def("set_unavailable_reason", &set_unavailable_reason);
  m.def("unavailable_reason", &unavailable_reason);

  m.def("init", [] { runtime_or_raise(); });
  m.def("is_initialized", [] { return runtime::is_created() && !runtime::is_in_bad_fork(); });
  m.def("is_in_bad_fork", &runtime::is_in_bad_fork);
  m.def("device_count", &device_count);
  m.def("current_device", &current_device);
  m.def("set_device", &set_device);
  m.def("exchange_device", [](c10::DeviceIndex device) {
    return at::detail::getPrivateUse1Hooks().exchangeDevice(device);
  });
  m.def("maybe_exchange_device", [](c10::DeviceIndex device) {
    return at::detail::getPrivateUse1Hooks().maybeExchangeDevice(device);
  });
  m.def(
      "synchronize", [](c10::DeviceIndex device) { synchronize_device(resolve_device(device)); },
      py::call_guard<py::gil_scoped_release>());
  m.def("stream_priority_range", [] { return std::make_tuple(0, -1); });
  m.def("default_generator", &default_generator_object);

  m.def("executed_ops", &executed_operators);
  m.def("reset_executed_ops", &reset_executed_operators);
  m.def("record_op_shapes", &record_operator_shapes);
  m.def("executed_op_shapes", &executed_operator_shapes);
  m.def("set_op_log", &set_log);
  m.def("copied_results", &copied_results);

  m.def("stop_autograd_engine", &stop_autograd_engine);
}
