#include "bindings/scope_recorder.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/node.h>

#include <algorithm>

#include "core/allocator.h"

namespace torch_trainium {
namespace {

namespace py = pybind11;

thread_local std::vector<uint32_t> open_modules;

std::string text_of(PyObject* unicode) { return py::cast<std::string>(py::handle(unicode)); }

}  // namespace

ScopeRecorder& ScopeRecorder::instance() {
  static auto* recorder = new ScopeRecorder;
  return *recorder;
}

void ScopeRecorder::start(std::vector<std::string> internal_folders) {
  const std::lock_guard lock(mutex_);
  internal_folders_ = std::move(internal_folders);
  lines_.clear();
  recording_ = true;
  runtime::set_work_observer(runtime::Observer::kScope, this);
}

std::vector<ScopeRecord> ScopeRecorder::stop() {
  runtime::set_work_observer(runtime::Observer::kScope, nullptr);
  const std::lock_guard lock(mutex_);
  recording_ = false;
  forward_origins_.clear();
  line_numbers_.clear();
  for (const auto& [code, is_internal] : internal_code_) {
    Py_DECREF(reinterpret_cast<PyObject*>(code));
  }
  internal_code_.clear();
  return std::exchange(records_, {});
}

void ScopeRecorder::enter_module(uint32_t module) { open_modules.push_back(module); }
void ScopeRecorder::leave_module() {
  if (!open_modules.empty()) open_modules.pop_back();
}

bool ScopeRecorder::is_internal(PyCodeObject* code) {
  const auto [entry, is_new] = internal_code_.try_emplace(code, false);
  if (is_new) {
    Py_INCREF(reinterpret_cast<PyObject*>(code));
    const std::string file = text_of(code->co_filename);
    entry->second =
        std::any_of(internal_folders_.begin(), internal_folders_.end(),
                    [&](const std::string& folder) { return file.rfind(folder, 0) == 0; });
  }
  return entry->second;
}

uint32_t ScopeRecorder::line_number(PyCodeObject* code, int line) {
  uint32_t& number = line_numbers_[{code, line}];
  if (number == 0) {
    lines_.push_back(text_of(code->co_filename) + ":" + std::to_string(line) + " (" +
                     text_of(code->co_name) + ")");
    number = static_cast<uint32_t>(lines_.size());
  }
  return number;
}

// Operators run without the interpreter's lock. It is taken before ours, in this
// order everywhere.
uint32_t ScopeRecorder::user_line() {
  PyThreadState* thread = PyGILState_GetThisThreadState();
  if (thread == nullptr) return 0;
  const py::gil_scoped_acquire gil;
  const std::lock_guard lock(mutex_);
  if (!recording_) return 0;
  PyFrameObject* frame = PyThreadState_GetFrame(thread);
  uint32_t line = 0;
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    if (!is_internal(code)) line = line_number(code, PyFrame_GetLineNumber(frame));
    Py_DECREF(reinterpret_cast<PyObject*>(code));
    PyFrameObject* outer = line == 0 ? PyFrame_GetBack(frame) : nullptr;
    Py_DECREF(reinterpret_cast<PyObject*>(frame));
    frame = outer;
  }
  return line;
}

Origin ScopeRecorder::current_origin(bool is_backward) {
  if (!is_backward) {
    return {user_line(), open_modules.empty() ? 0 : open_modules.back()};
  }
  const auto node = torch::autograd::get_current_node();
  // What adds gradients up stands for no line; its number is beyond all others.
  if (node->sequence_nr() == UINT64_MAX) return {};
  const std::lock_guard lock(mutex_);
  // A view has a node and no work of its own: it belongs to the operator before it.
  auto origin = forward_origins_.upper_bound({node->thread_id(), node->sequence_nr()});
  if (origin == forward_origins_.begin()) return {};
  --origin;
  return origin->first.first == node->thread_id() ? origin->second : Origin{};
}

void ScopeRecorder::observe(const runtime::Work& work, const timeline::OperatorCall& call,
                            const runtime::WorkTimes& times) noexcept {
  const bool is_backward = torch::autograd::get_current_node() != nullptr;
  const Origin origin = current_origin(is_backward);
  const int64_t allocated = allocated_bytes(work.device);
  const std::lock_guard lock(mutex_);
  if (!recording_) return;
  // The node of an operator is made just before the operator runs; operators that
  // need no gradient follow, and leave it the first one's. Forward operators that
  // run again inside a backward pass belong to the line of the node they run for.
  forward_origins_.try_emplace(
      {at::RecordFunction::currentThreadId(), at::sequence_number::peek() - 1}, origin);
  records_.push_back({work.operator_id, call.cost_class, work.device, work.stream, times.placement,
                      origin, is_backward, allocated});
}

}  // namespace torch_trainium
