// The numbers behind the emulator's clock, to be given before the runtime is created.
#pragma once

#include "timeline/constants.h"
#include "timeline/profile.h"

namespace torch_trainium::runtime {

struct TimingModel {
  int devices_per_chip;
  timeline::Constants constants;
  timeline::Profile profile;
};

void configure_timing(const TimingModel& model);
bool is_timing_configured() noexcept;

}  // namespace torch_trainium::runtime
