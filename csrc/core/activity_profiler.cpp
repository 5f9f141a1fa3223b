// Device work in torch.profiler (activity PrivateUse1): rows of kernels, copies
// and ranges per device and stream, each tied to the CPU operator that asked for it.

// PyTorch ships fmt's headers, which Kineto's use, without the library.
#define FMT_HEADER_ONLY
#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/trace_rows.h"
#include "core/work_recorder.h"

namespace torch_trainium {
namespace {

using libkineto::ActivityType;
using libkineto::GenericTraceActivity;
using runtime::WorkKind;

const std::set<ActivityType> kDeviceActivities{
    ActivityType::CONCURRENT_KERNEL,   ActivityType::GPU_MEMCPY,          ActivityType::GPU_MEMSET,
    ActivityType::GPU_USER_ANNOTATION, ActivityType::PRIVATEUSE1_RUNTIME,
};

ActivityType activity_type(WorkKind kind) {
  switch (kind) {
    case WorkKind::kKernel:
      return ActivityType::CONCURRENT_KERNEL;
    case WorkKind::kCopy:
      return ActivityType::GPU_MEMCPY;
    case WorkKind::kFill:
      return ActivityType::GPU_MEMSET;
  }
  return ActivityType::CONCURRENT_KERNEL;
}

// Nanoseconds from the steady clock to the profiler's, which counts from the
// epoch; the pair read fastest is the one least disturbed.
int64_t steady_to_unix_ns() {
  const auto steady_ns = [] {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  int64_t shortest = INT64_MAX;
  int64_t offset = 0;
  for (int attempt = 0; attempt < 8; ++attempt) {
    const int64_t before = steady_ns();
    const int64_t unix_ns =
        std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
    const int64_t after = steady_ns();
    if (after - before < shortest) {
      shortest = after - before;
      offset = unix_ns - before - shortest / 2;
    }
  }
  return offset;
}

libkineto::DeviceInfo device_info(int device) {
  return {device, libkineto::kExceedMaxPid + device, "neuron:" + std::to_string(device),
          runtime::get().machine().device_name};
}

// Numbers of the pairs of submission and work. PyTorch looks a CPU event's
// kernels up by its number, so these must not equal those of its operators,
// which count from 1.
constexpr int32_t kFirstPair = int32_t{1} << 30;

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(std::set<ActivityType> wanted) : wanted_(std::move(wanted)) {}

  void start() override {
    steady_to_unix_ns_ = steady_to_unix_ns();
    WorkRecorder::instance().start();
    status_ = libkineto::TraceStatus::RECORDING;
  }

  void stop() override {
    recording_ = WorkRecorder::instance().stop();
    status_ = libkineto::TraceStatus::PROCESSING;
  }

  std::vector<std::string> errors() override { return {}; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, 0);
  }

  void processTrace(libkineto::ActivityLogger& logger,
                    libkineto::getLinkedActivityCallback cpu_activity, int64_t start_ns,
                    int64_t end_ns) override {
    trace_ = std::make_unique<libkineto::CpuTraceBuffer>();
    trace_->span = libkineto::TraceSpan(start_ns, end_ns, "neuron");
    trace_->gpuOpCount = static_cast<int>(recording_.work.size());
    int32_t pair = kFirstPair;
    for (const WorkRecord& record : recording_.work) {
      const auto* call =
          record.call == 0 ? nullptr : cpu_activity(static_cast<int32_t>(record.call));
      add_submission(record, pair, call);
      add_work(record, pair, call);
      ++pair;
      streams_[record.device].insert(record.stream);
      rows_[record.device].merge(rows_of(record));
    }
    if (wanted_.count(ActivityType::GPU_USER_ANNOTATION) != 0) add_ranges(cpu_activity);
    for (const auto& activity : trace_->activities) logger.handleActivity(*activity);
    // getDeviceInfo can name one device only.
    for (const auto& [device, streams] : streams_) {
      logger.handleDeviceInfo(device_info(device), start_ns);
    }
  }

  // Kineto labels rows "GPU 0" and so on unless some session names a device.
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    if (streams_.empty()) return nullptr;
    return std::make_unique<libkineto::DeviceInfo>(device_info(streams_.begin()->first));
  }

  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> rows;
    for (const auto& [device, streams] : streams_) {
      for (const runtime::StreamId stream : streams) {
        rows.push_back({stream, stream, device, "stream " + std::to_string(stream)});
      }
    }
    for (const auto& [device, device_rows] : rows_) {
      for (const int32_t row : device_rows) rows.push_back({row, row, device, row_name(row)});
    }
    return rows;
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(trace_); }

  void pushCorrelationId(uint64_t id) override { WorkRecorder::instance().enter_call(id); }
  void popCorrelationId() override { WorkRecorder::instance().leave_call(); }
  void pushUserCorrelationId(uint64_t id) override { WorkRecorder::instance().enter_range(id); }
  void popUserCorrelationId() override { WorkRecorder::instance().leave_range(); }

 private:
  using Linked = const libkineto::ITraceActivity*;

  GenericTraceActivity& add(ActivityType type, const std::string& name, int64_t start_ns,
                            int64_t end_ns) {
    trace_->emplace_activity(trace_->span, type, name);
    GenericTraceActivity& activity = *trace_->activities.back();
    activity.startTime = start_ns;
    activity.endTime = end_ns;
    return activity;
  }

  static void link(GenericTraceActivity& activity, int32_t pair, Linked call, bool is_source) {
    activity.id = pair;
    activity.linked = call;
    activity.flow.id = static_cast<uint32_t>(pair);
    activity.flow.type = libkineto::kLinkAsyncCpuGpu;
    activity.flow.start = is_source;
    activity.addMetadata("correlation", pair);
  }

  static void place(GenericTraceActivity& activity, int device, runtime::StreamId stream) {
    activity.device = device;
    activity.resource = static_cast<int32_t>(stream);
    activity.addMetadata("device", device);
    activity.addMetadata("stream", stream);
  }

  // The device's clock is the host's when the first work recorded was issued.
  int64_t unix_ns(int64_t device_ps) const {
    constexpr int64_t kPicosecondsPerNanosecond = 1000;
    const runtime::WorkTimes& first = recording_.work.front().times;
    return steady_to_unix_ns_ + first.submitted_ns +
           (device_ps - first.placement.issued_ps) / kPicosecondsPerNanosecond;
  }

  // Where the arrow to the work starts: a point, since what the emulator does
  // meanwhile (allocating results, above all) is the operator's own.
  void add_submission(const WorkRecord& record, int32_t pair, Linked call) {
    if (wanted_.count(ActivityType::PRIVATEUSE1_RUNTIME) == 0) return;
    const int64_t now_ns = record.times.submitted_ns + steady_to_unix_ns_;
    GenericTraceActivity& activity =
        add(ActivityType::PRIVATEUSE1_RUNTIME, "neuron::submit", now_ns, now_ns);
    activity.device = libkineto::processId();
    activity.resource = record.thread;
    activity.threadId = record.thread;
    link(activity, pair, call, true);
  }

  void add_work(const WorkRecord& record, int32_t pair, Linked call) {
    const ActivityType type = activity_type(record.kind);
    if (wanted_.count(type) == 0) return;
    auto activity = std::make_unique<WorkActivity>(
        trace_->span, type, record, [this](int64_t device_ps) { return unix_ns(device_ps); });
    place(*activity, record.device, record.stream);
    link(*activity, pair, call, false);
    trace_->activities.push_back(std::move(activity));
  }

  // The user's ranges on each stream: from the first to the last work inside.
  void add_ranges(const libkineto::getLinkedActivityCallback& cpu_activity) {
    std::map<std::tuple<CorrelationId, int, runtime::StreamId>, std::pair<int64_t, int64_t>> spans;
    for (const WorkRecord& record : recording_.work) {
      CorrelationId range = record.range;
      while (range != 0) {
        const std::pair now{record.times.placement.start_ps, record.times.placement.end_ps};
        const auto [span, is_new] = spans.try_emplace({range, record.device, record.stream}, now);
        span->second.first = std::min(span->second.first, now.first);
        span->second.second = std::max(span->second.second, now.second);
        const auto enclosing = recording_.enclosing_range.find(range);
        range = enclosing == recording_.enclosing_range.end() ? 0 : enclosing->second;
      }
    }
    for (const auto& [key, span] : spans) {
      const auto& [range, device, stream] = key;
      const Linked named = cpu_activity(static_cast<int32_t>(range));
      if (named == nullptr) continue;
      GenericTraceActivity& activity = add(ActivityType::GPU_USER_ANNOTATION, named->name(),
                                           unix_ns(span.first), unix_ns(span.second));
      activity.id = static_cast<int32_t>(range);
      place(activity, device, stream);
    }
  }

  const std::set<ActivityType> wanted_;
  int64_t steady_to_unix_ns_ = 0;
  Recording recording_;
  std::map<int, std::set<runtime::StreamId>> streams_;  // by device
  std::map<int, std::set<int32_t>> rows_;               // beside the streams
  std::unique_ptr<libkineto::CpuTraceBuffer> trace_;
};

class NeuronActivityProfiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return kDeviceActivities; }

  // No session where only the CPU is profiled. Its activities include the
  // runtime's calls, which show nothing without the device.
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<ActivityType>& types, const libkineto::Config& /*config*/) override {
    std::set<ActivityType> wanted;
    std::set_intersection(types.begin(), types.end(), kDeviceActivities.begin(),
                          kDeviceActivities.end(), std::inserter(wanted, wanted.end()));
    if (wanted.empty() || wanted == std::set{ActivityType::PRIVATEUSE1_RUNTIME}) return nullptr;
    return std::make_unique<Session>(std::move(wanted));
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t /*start_ms*/, int64_t /*duration_ms*/, const std::set<ActivityType>& types,
      const libkineto::Config& config) override {
    return configure(types, config);
  }

 private:
  const std::string name_ = "neuron";
};

REGISTER_PRIVATEUSE1_PROFILER(NeuronActivityProfiler);

}  // namespace
}  // namespace torch_trainium
