// Records device work for the profiler, with the operator and the user's named
// ranges that were open on the thread that submitted it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/work_observer.h"

namespace torch_trainium {

// The profiler's number of an operator call or of a range; 0 is none.
using CorrelationId = uint64_t;

struct WorkRecord {
  runtime::WorkKind kind;
  int device;
  runtime::StreamId stream;
  uint32_t operator_id;
  int32_t thread;  // as Kineto numbers threads
  CorrelationId call;
  CorrelationId range;  // the innermost
  runtime::WorkTimes times;
  int64_t allocated_bytes;  // of device memory, when it was submitted
};

struct Recording {
  std::vector<WorkRecord> work;
  std::unordered_map<CorrelationId, CorrelationId> enclosing_range;
};

class WorkRecorder final : public runtime::WorkObserver {
 public:
  static WorkRecorder& instance();

  void start();
  Recording stop();

  // What the calling thread is in; calls and ranges nest.
  void enter_call(CorrelationId call);
  void leave_call();
  void enter_range(CorrelationId range);
  void leave_range();

  void observe(const runtime::Work& work, const timeline::OperatorCall& call,
               const runtime::WorkTimes& times) noexcept override;

 private:
  struct Position {
    uint64_t session = 0;
    std::vector<CorrelationId> calls;
    std::vector<CorrelationId> ranges;
  };

  WorkRecorder() = default;
  Position& position();

  std::mutex mutex_;
  bool recording_ = false;
  Recording recording_so_far_;
  std::atomic<uint64_t> session_{0};
};

}  // namespace torch_trainium
