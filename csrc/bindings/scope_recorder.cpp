#include "bindings/scope_recorder.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/node.h>

#include <utility>

#include "core/allocator.h"

namespace torch_trainium {
namespace {

thread_local std::vector<uint32_t> open_modules;

}  // namespace

ScopeRecorder& ScopeRecorder::instance() {
  static auto* recorder = new ScopeRecorder;
  return *recorder;
}

void ScopeRecorder::start(std::vector<std::string> internal_folders) {
  const std::lock_guard lock(mutex_);
  lines_.start(std::move(internal_folders));
  recording_ = true;
  runtime::set_work_observer(runtime::Observer::kScope, this);
}

std::vector<ScopeRecord> ScopeRecorder::stop() {
  runtime::set_work_observer(runtime::Observer::kScope, nullptr);
  const std::lock_guard lock(mutex_);
  recording_ = false;
  forward_origins_.clear();
  lines_.stop();
  return std::exchange(records_, {});
}

void ScopeRecorder::enter_module(uint32_t module) { open_modules.push_back(module); }
void ScopeRecorder::leave_module() {
  if (!open_modules.empty()) open_modules.pop_back();
}

Origin ScopeRecorder::current_origin(bool is_backward) {
  if (!is_backward) {
    return {lines_.current(), open_modules.empty() ? 0 : open_modules.back()};
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
