#include "core/work_recorder.h"

#include <ThreadUtil.h>

#include <utility>

#include "core/allocator.h"

namespace torch_trainium {
namespace {

CorrelationId innermost(const std::vector<CorrelationId>& open) {
  return open.empty() ? 0 : open.back();
}

void leave(std::vector<CorrelationId>& open) {
  if (!open.empty()) open.pop_back();
}

}  // namespace

WorkRecorder& WorkRecorder::instance() {
  static auto* recorder = new WorkRecorder;
  return *recorder;
}

void WorkRecorder::start() {
  const std::lock_guard lock(mutex_);
  session_.fetch_add(1, std::memory_order_relaxed);
  recording_so_far_ = {};
  recording_ = true;
  runtime::set_work_observer(runtime::Observer::kProfiler, this);
}

Recording WorkRecorder::stop() {
  runtime::set_work_observer(runtime::Observer::kProfiler, nullptr);
  const std::lock_guard lock(mutex_);
  recording_ = false;
  return std::exchange(recording_so_far_, {});
}

// A session may end inside calls and ranges that it never sees the end of.
WorkRecorder::Position& WorkRecorder::position() {
  thread_local Position here;
  const uint64_t session = session_.load(std::memory_order_relaxed);
  if (here.session != session) {
    here.session = session;
    here.calls.clear();
    here.ranges.clear();
  }
  return here;
}

void WorkRecorder::enter_call(CorrelationId call) { position().calls.push_back(call); }
void WorkRecorder::leave_call() { leave(position().calls); }
void WorkRecorder::leave_range() { leave(position().ranges); }

void WorkRecorder::enter_range(CorrelationId range) {
  std::vector<CorrelationId>& open = position().ranges;
  {
    const std::lock_guard lock(mutex_);
    recording_so_far_.enclosing_range.emplace(range, innermost(open));
  }
  open.push_back(range);
}

void WorkRecorder::observe(const runtime::Work& work, const timeline::OperatorCall& /*call*/,
                           const runtime::WorkTimes& times) noexcept {
  const Position& here = position();
  const WorkRecord record{work.kind,
                          work.device,
                          work.stream,
                          work.operator_id,
                          libkineto::systemThreadId(),
                          innermost(here.calls),
                          innermost(here.ranges),
                          times,
                          allocated_bytes(work.device)};
  const std::lock_guard lock(mutex_);
  if (recording_) recording_so_far_.work.push_back(record);
}

}  // namespace torch_trainium
