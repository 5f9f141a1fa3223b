// Python objects that C++ holds and calls.
#pragma once

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <utility>

namespace torch_trainium {

// Lets a Python exception pass through the dispatcher.
[[noreturn]] inline void rethrow(pybind11::error_already_set& error) {
  error.restore();
  python_error raised;
  raised.persist();
  throw std::move(raised);
}

// Objects are dropped on threads that may not hold the GIL, and by the dispatcher at
// the very end, when there is no Python any more.
class Held {
 public:
  explicit Held(pybind11::object object) : object_(std::move(object)) {}
  ~Held() {
    if (Py_IsInitialized() == 0) {
      object_.release();
      return;
    }
    const pybind11::gil_scoped_acquire gil;
    object_ = pybind11::object();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  const pybind11::object& get() const { return object_; }

 private:
  pybind11::object object_;
};

}  // namespace torch_trainium
