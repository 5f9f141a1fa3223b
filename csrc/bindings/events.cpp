#include "bindings/events.h"

#include <torch/csrc/Event.h>

namespace torch_trainium {
namespace {

namespace py = pybind11;

const c10::Event& event_of(py::handle object) {
  TORCH_CHECK_TYPE(THPEvent_Check(object.ptr()), "expected a torch.Event, but got ",
                   Py_TYPE(object.ptr())->tp_name);
  return reinterpret_cast<THPEvent*>(object.ptr())->event;
}

}  // namespace

void bind_events(py::module_& m) {
  // torch.Event.elapsed_time takes no subclass of torch.Event as the other event.
  m.def("elapsed_milliseconds", [](py::handle start, py::handle end) {
    return event_of(start).elapsedTime(event_of(end));
  });
}

}  // namespace torch_trainium
