// Which programs of eager operators a core has at hand, and what changing to another takes.
#pragma once

#include <cstdint>

#include "timeline/operator_call.h"
#include "timeline/profile.h"

namespace torch_trainium::timeline {

// One step of a hash: `key` with `value` mixed in.
inline uint64_t mixed(uint64_t key, uint64_t value) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;
  return (key ^ value) * kMultiplier + (key >> 32);
}

// Equal for calls that the same program serves: one operator or graph on the same shapes.
uint64_t program_of(uint32_t operator_id, const OperatorCall& call);

class LoadedPrograms {
 public:
  // Device time before `program` starts: none where it has just run, half where it ran just
  // before that one, as two operators that alternate do, else the whole of a switch.
  int64_t switch_to(uint64_t program, const Profile& profile) {
    const int64_t switch_ps = program == last_              ? 0
                              : program == one_before_last_ ? profile.eager_switch_ps / 2
                                                            : profile.eager_switch_ps;
    if (program != last_) one_before_last_ = last_;
    last_ = program;
    return switch_ps;
  }

 private:
  uint64_t last_ = 0;
  uint64_t one_before_last_ = 0;
};

}  // namespace torch_trainium::timeline
