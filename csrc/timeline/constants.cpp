#include "timeline/constants.h"

#include "timeline/named_values.h"

namespace torch_trainium::timeline {

Constants constants_from(const std::map<std::string, double>& values) {
  NamedValues given(values);
  Constants constants;
#define TORCH_TRAINIUM_FIELD(name) constants.name = given.take(#name);
  TORCH_TRAINIUM_CONSTANTS(TORCH_TRAINIUM_FIELD)
#undef TORCH_TRAINIUM_FIELD
  given.expect_none_left();
  return constants;
}

}  // namespace torch_trainium::timeline
