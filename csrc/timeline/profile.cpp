#include "timeline/profile.h"

#include <utility>

#include "timeline/named_values.h"

namespace torch_trainium::timeline {

Profile profile_from(std::string name, const std::map<std::string, double>& overheads_us) {
  NamedValues given(overheads_us);
  Profile profile;
  profile.name = std::move(name);
#define TORCH_TRAINIUM_FIELD(name) \
  profile.name##_ps = static_cast<int64_t>(given.take(#name "_us") * 1e6 + 0.5);
  TORCH_TRAINIUM_OVERHEADS(TORCH_TRAINIUM_FIELD)
#undef TORCH_TRAINIUM_FIELD
  given.expect_none_left();
  return profile;
}

}  // namespace torch_trainium::timeline
