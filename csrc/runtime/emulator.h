// A Trainium device in software: HBM is a sparse memory file, work runs on the
// calling thread.
#pragma once

#include <memory>

#include "runtime/runtime.h"

namespace torch_trainium::runtime {

struct TimingModel;

std::unique_ptr<Runtime> create_emulator(const Machine& machine, const TimingModel& timing);

}  // namespace torch_trainium::runtime
