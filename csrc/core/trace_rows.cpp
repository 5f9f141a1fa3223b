// PyTorch ships fmt's headers, which Kineto's use, without the library.
#define FMT_HEADER_ONLY
#include "core/trace_rows.h"

#include <array>
#include <string>

#include "core/operator_names.h"

namespace torch_trainium {
namespace {

using libkineto::ActivityType;
using timeline::Queue;

// Above the ids of streams.
constexpr int32_t kFirstRow = int32_t{1} << 24;

// Rows in their order on the screen: the engines, in theirs, and the queues beside them.
constexpr std::array kRowNames{"tensor engine",
                               "vector engine",
                               "scalar engine",
                               "GpSimd engine",
                               "DMA",
                               "collectives inside programs",
                               "copies from the host",
                               "copies to the host",
                               "collectives"};

int32_t engine_row(int engine) { return kFirstRow + engine; }

int32_t queue_row(Queue queue) {
  return kFirstRow + timeline::kEngines + static_cast<int32_t>(queue) -
         static_cast<int32_t>(Queue::kCopyIn);
}

// What is no kernel, so that tools which add up kernels do not find these.
constexpr ActivityType kPart = ActivityType::PRIVATEUSE1_DRIVER;
// Kineto writes these as counters, whoever's they are.
constexpr ActivityType kCounter = ActivityType::MTIA_COUNTERS;

}  // namespace

WorkActivity::WorkActivity(const libkineto::TraceSpan& span, ActivityType type,
                           const WorkRecord& record, const TraceClock& clock)
    : GenericTraceActivity(span, type, operator_name(record.operator_id)) {
  const timeline::Placement& placement = record.times.placement;
  device = record.device;
  startTime = clock(placement.start_ps);
  endTime = clock(placement.end_ps);
  addMetadata("flops", placement.cost.flops);
  addMetadata("hbm_bytes", placement.cost.hbm_bytes);
  for (const int32_t row : rows_of(record)) {
    GenericTraceActivity& part = parts_.emplace_back(span, kPart, activityName);
    part.device = device;
    part.resource = row;
    part.startTime = startTime;
    // When within its program an engine was busy is not modelled.
    part.endTime = placement.queue == Queue::kCompute
                       ? clock(placement.start_ps + placement.cost.engine_ps[row - kFirstRow])
                       : endTime;
  }
  GenericTraceActivity& memory = parts_.emplace_back(span, kCounter, "memory in use");
  memory.device = device;
  memory.startTime = memory.endTime = clock(placement.issued_ps);
  memory.addCounterValue("bytes", static_cast<double>(record.allocated_bytes));
}

void WorkActivity::log(libkineto::ActivityLogger& logger) const {
  GenericTraceActivity::log(logger);
  for (const GenericTraceActivity& part : parts_) part.log(logger);
}

std::set<int32_t> rows_of(const WorkRecord& record) {
  const timeline::Placement& placement = record.times.placement;
  if (placement.queue != Queue::kCompute) return {queue_row(placement.queue)};
  std::set<int32_t> rows;
  for (int engine = 0; engine < timeline::kEngines; ++engine) {
    if (placement.cost.engine_ps[engine] > 0) rows.insert(engine_row(engine));
  }
  return rows;
}

const char* row_name(int32_t row) { return kRowNames[static_cast<size_t>(row - kFirstRow)]; }

}  // namespace torch_trainium
