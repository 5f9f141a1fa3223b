// What the device has executed: one record per operator, counted always, with
// shapes or a log on request.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "aten/classification.h"
#include "runtime/runtime.h"
#include "timeline/cost_class.h"

namespace torch_trainium {

struct OperatorRecord {
  std::string name;  // "aten::add.Tensor"
  uint32_t id;
  timeline::CostClass cost_class;
  runtime::WorkKind work_kind;
  // What its calls are CPU fallbacks for on this chip, or some of them: dtypes of the first tensor,
  // and of any.
  Dtypes fallback_dtypes;
  Dtypes missing_dtypes;
  std::atomic<uint64_t> calls{0};
  Classification classification;  // behind what every call reads
};

// The record of an operator, created on first use. Records live for ever.
OperatorRecord& operator_record(std::string_view qualified_name);

// Name to number of calls, of every operator called at least once since the last reset.
std::map<std::string, uint64_t> executed_operators();
void reset_executed_operators();

// Operand shapes and dtypes of the calls made while recording was on, as
// "Float[2, 3], Long[2]", and how often each was seen.
using ShapeCounts = std::map<std::string, std::map<std::string, uint64_t>>;
void record_operator_shapes(bool enabled);
ShapeCounts executed_operator_shapes();

// Called before each operator with its name and operands; empty turns logging off.
using OperatorLog = std::function<void(const std::string& name, const std::string& operands)>;
void set_operator_log(OperatorLog log);

namespace detail {
extern std::atomic<bool> operators_observed;
void observe(const OperatorRecord& record, c10::ArrayRef<const at::TensorBase*> operands);
}  // namespace detail

inline bool operators_are_observed() {
  return detail::operators_observed.load(std::memory_order_relaxed);
}

}  // namespace torch_trainium
