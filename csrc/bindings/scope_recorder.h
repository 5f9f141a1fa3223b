// Records device work inside a scope, with the module and the user's line that
// asked for it. Work of a backward pass belongs to the line of its forward operator.
#pragma once

#include <ATen/SequenceNumber.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bindings/user_line.h"
#include "runtime/work_observer.h"

namespace torch_trainium {

// Numbers of a place in the user's program; 0 is unknown.
struct Origin {
  uint32_t line = 0;
  uint32_t module = 0;
};

struct ScopeRecord {
  uint32_t operator_id;
  timeline::CostClass cost_class;
  int device;
  runtime::StreamId stream;
  timeline::Placement placement;
  Origin origin;
  bool is_backward;
  int64_t allocated_bytes;  // of device memory, when the work was submitted
};

class ScopeRecorder final : public runtime::WorkObserver {
 public:
  // Never destroyed: see WorkObserver.
  static ScopeRecorder& instance();

  // `internal_folders`: code below these is nobody's line.
  void start(std::vector<std::string> internal_folders);
  std::vector<ScopeRecord> stop();
  bool is_recording() const { return recording_; }

  // What the calling thread is inside of.
  static void enter_module(uint32_t module);
  static void leave_module();
  // The text of a line number that a record holds: "train.py:12 (step)".
  std::string line_text(uint32_t line) const { return lines_.text(line); }

  void observe(const runtime::Work& work, const timeline::OperatorCall& call,
               const runtime::WorkTimes& times) noexcept override;

 private:
  ScopeRecorder() = default;
  Origin current_origin(bool is_backward);

  std::mutex mutex_;
  std::atomic<bool> recording_{false};
  std::vector<ScopeRecord> records_;
  // By thread and sequence number of autograd's node.
  std::map<std::pair<uint64_t, uint64_t>, Origin> forward_origins_;
  UserLines lines_;
};

}  // namespace torch_trainium
