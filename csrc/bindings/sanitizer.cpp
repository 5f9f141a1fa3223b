#include "bindings/sanitizer.h"

#include <torch/csrc/autograd/node.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "aten/host_accesses.h"
#include "bindings/user_line.h"
#include "core/operator_names.h"
#include "core/stream_sanitizer.h"

namespace torch_trainium {
namespace {

namespace py = pybind11;

// By the order of StreamRace::Kind.
constexpr std::array kKindNames{"use_without_wait", "reuse_without_wait", "missing_record_stream",
                                "early_host_access"};

UserLines& user_lines() {
  static auto* lines = new UserLines;
  return *lines;
}

// A backward operator has the line that called backward(), or none in autograd's
// threads; the node tells which operator it is.
uint32_t current_line() {
  const uint32_t line = user_lines().current();
  const auto node = torch::autograd::get_current_node();
  if (node == nullptr) return line;
  const py::gil_scoped_acquire gil;
  const std::string place = line == 0 ? "" : " at " + user_lines().text(line);
  return user_lines().number_of("backward pass (" + node->name() + ")" + place);
}

// In the order of torch_trainium.neuron's StreamUse.
py::tuple tuple_of(const TensorUse& use, std::optional<runtime::StreamName> stream) {
  py::list sizes;
  for (const int64_t size : use.sizes) sizes.append(size);
  return py::make_tuple(
      operator_name(use.operator_id), user_lines().text(use.line), use.is_written,
      use.dtype == nullptr ? "" : use.dtype, py::tuple(sizes), use.extent.end - use.extent.begin,
      stream ? py::cast(stream->device) : py::none(), stream ? py::cast(stream->id) : py::none());
}

void start(const py::object& report, std::vector<std::string> internal_folders) {
  user_lines().start(std::move(internal_folders));
  // Threads without the interpreter's lock drop the callback too.
  const std::shared_ptr<py::object> shared(new py::object(report), [](py::object* object) {
    const py::gil_scoped_acquire gil;
    delete object;
  });
  StreamSanitizer::instance().start(&current_line, [shared](const StreamRace& race) {
    const py::gil_scoped_acquire gil;
    const py::object raised = (*shared)(kKindNames[static_cast<size_t>(race.kind)],
                                        tuple_of(race.later, race.later_stream),
                                        tuple_of(race.earlier, race.earlier_stream));
    // PyTorch swallows what is thrown where operators of the host are watched; the
    // interpreter raises this when the operator returns.
    if (!raised.is_none()) PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), raised.ptr());
  });
  watch_host_accesses();
}

void stop() {
  unwatch_host_accesses();
  StreamSanitizer::instance().stop();
  user_lines().stop();
}

}  // namespace

void bind_sanitizer(py::module_& parent) {
  py::module_ m = parent.def_submodule("sanitizer");
  m.def("start", &start);
  m.def("stop", &stop);
  m.def("is_running", [] { return StreamSanitizer::instance().is_running(); });
}

}  // namespace torch_trainium
