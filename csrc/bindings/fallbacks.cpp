#include "bindings/fallbacks.h"

#include <torch/csrc/Exceptions.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "aten/classification.h"
#include "aten/fallback.h"

namespace torch_trainium {
namespace {

namespace py = pybind11;

// A Python function of a message, whose exceptions pass through the dispatcher.
std::function<void(const std::string&)> voice(py::object function) {
  // Leaked: it may be called when the interpreter is gone.
  auto* held = new py::object(std::move(function));
  return [held](const std::string& message) {
    const py::gil_scoped_acquire gil;
    try {
      (*held)(message);
    } catch (py::error_already_set& error) {
      error.restore();
      python_error raised;
      raised.persist();
      throw std::move(raised);
    }
  };
}

py::dict totals() {
  py::dict by_operator;
  for (const auto& [name, total] : fallback_totals()) {
    by_operator[py::str(name)] =
        py::make_tuple(total.calls, total.bytes, total.device_ps, total.reason);
  }
  return by_operator;
}

// Why a call on device tensors of these dtypes, which computes or returns those others, and has
// such a use as "accumulate=True", falls back; "" where it is native.
std::string reason(const std::string& name, const std::vector<c10::ScalarType>& tensors,
                   const std::vector<c10::ScalarType>& others, const std::string& use) {
  CallDtypes dtypes;
  for (const c10::ScalarType dtype : tensors) dtypes.add_tensor(dtype);
  for (const c10::ScalarType dtype : others) dtypes.add(dtype);
  const OperatorRecord& record = operator_record(name);
  const Classification& classification = record.classification;
  for (const UseClassification& refused : classification.uses) {
    if (use == classification.deciding_argument + "=" + refused.value) dtypes.set_use(refused);
  }
  return dtypes.fall_back(record) ? dtypes.reason(record) : std::string();
}

// What a call gives whose operator's next use of the host is a fallback, for this reason.
py::object call_without_program(const std::string& name, std::string reason,
                                const py::object& call) {
  const RefusedProgram refused(operator_record(name), std::move(reason));
  return call();
}

}  // namespace

void bind_fallbacks(py::module_& parent) {
  py::module_ m = parent.def_submodule("fallbacks", "CPU fallbacks.");
  py::enum_<FallbackPolicy>(m, "Policy")
      .value("allow", FallbackPolicy::kAllow)
      .value("warn", FallbackPolicy::kWarn)
      .value("error", FallbackPolicy::kError);
  m.def("set_classification", &set_classification);
  m.def("policies", [] {
    const FallbackPolicies policies = fallback_policies();
    return std::make_pair(policies.otherwise, policies.of_operator);
  });
  m.def("set_policies",
        [](FallbackPolicy otherwise, std::map<std::string, FallbackPolicy> of_operator) {
          set_fallback_policies({otherwise, std::move(of_operator)});
        });
  m.def("set_voices", [](py::object warn, py::object raise) {
    set_fallback_voices({voice(std::move(warn)), voice(std::move(raise))});
  });
  m.def("reason", &reason, py::arg("name"), py::arg("tensors"), py::arg("others"),
        py::arg("use") = "");
  m.def("call_without_program", &call_without_program);
  m.def("totals", &totals);
  m.def("reset_totals", &reset_fallback_totals);
  m.def("set_native_means_expressible", &set_native_means_expressible);
}

}  // namespace torch_trainium
