#include "bindings/user_line.h"

#include <algorithm>

namespace torch_trainium {
namespace {

namespace py = pybind11;

std::string text_of(PyObject* unicode) { return py::cast<std::string>(py::handle(unicode)); }

}  // namespace

void UserLines::start(std::vector<std::string> internal_folders) {
  stop();
  internal_folders_ = std::move(internal_folders);
  texts_.clear();
}

void UserLines::stop() {
  numbers_.clear();
  place_numbers_.clear();
  for (const auto& [code, is_internal] : internal_code_) {
    Py_DECREF(reinterpret_cast<PyObject*>(code));
  }
  internal_code_.clear();
}

bool UserLines::is_internal(PyCodeObject* code) {
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

uint32_t UserLines::number_of(PyCodeObject* code, int line) {
  uint32_t& number = numbers_[{code, line}];
  if (number == 0) {
    texts_.push_back(text_of(code->co_filename) + ":" + std::to_string(line) + " (" +
                     text_of(code->co_name) + ")");
    number = static_cast<uint32_t>(texts_.size());
  }
  return number;
}

uint32_t UserLines::number_of(const std::string& place) {
  uint32_t& number = place_numbers_[place];
  if (number == 0) {
    texts_.push_back(place);
    number = static_cast<uint32_t>(texts_.size());
  }
  return number;
}

uint32_t UserLines::current() {
  PyThreadState* thread = PyGILState_GetThisThreadState();
  if (thread == nullptr) return 0;
  const py::gil_scoped_acquire gil;
  PyFrameObject* frame = PyThreadState_GetFrame(thread);
  uint32_t line = 0;
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    if (!is_internal(code)) line = number_of(code, PyFrame_GetLineNumber(frame));
    Py_DECREF(reinterpret_cast<PyObject*>(code));
    PyFrameObject* outer = line == 0 ? PyFrame_GetBack(frame) : nullptr;
    Py_DECREF(reinterpret_cast<PyObject*>(frame));
    frame = outer;
  }
  return line;
}

}  // namespace torch_trainium
