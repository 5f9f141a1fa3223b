// Software overheads of one stack on one chip; profiles.toml says where each comes from.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace torch_trainium::timeline {

// name without its unit: host time of an eager operator and of a compiled graph, from issue to
// start on an idle device, device time to change to another eager program, host time of waiting
// for a device that is done, of asking it, of reading a scalar.
#define TORCH_TRAINIUM_OVERHEADS(_) \
  _(eager_issue)                    \
  _(eager_launch)                   \
  _(eager_switch)                   \
  _(compiled_issue)                 \
  _(compiled_launch)                \
  _(synchronize)                    \
  _(query)                          \
  _(host_read)

struct Profile {
  std::string name;
#define TORCH_TRAINIUM_FIELD(name) int64_t name##_ps = 0;
  TORCH_TRAINIUM_OVERHEADS(TORCH_TRAINIUM_FIELD)
#undef TORCH_TRAINIUM_FIELD
};

// From microseconds by name, such as "eager_issue_us". Throws std::invalid_argument where a name
// is missing or unknown, or a value not finite and >= 0.
Profile profile_from(std::string name, const std::map<std::string, double>& overheads_us);

}  // namespace torch_trainium::timeline
