// Rows of a written trace beside those of the streams: a core's engines, its copies
// and collectives, and the memory in use.
//
// Kineto keeps activities and has each of them write itself. So a unit of work
// writes its rows along with itself, and they are in the trace without being events
// of the profiler, whose sums would count the device's time twice.
#pragma once

#include <GenericTraceActivity.h>
#include <output_base.h>

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "core/work_recorder.h"

namespace torch_trainium {

// From the device's clock to the trace's.
using TraceClock = std::function<int64_t(int64_t device_ps)>;

class WorkActivity final : public libkineto::GenericTraceActivity {
 public:
  WorkActivity(const libkineto::TraceSpan& span, libkineto::ActivityType type,
               const WorkRecord& record, const TraceClock& clock);

  void log(libkineto::ActivityLogger& logger) const override;

 private:
  std::vector<GenericTraceActivity> parts_;
};

// Ids of the rows that a unit of work writes to, its stream's aside.
std::set<int32_t> rows_of(const WorkRecord& record);
// What a row is called; the id is one that rows_of gave.
const char* row_name(int32_t row);

}  // namespace torch_trainium
