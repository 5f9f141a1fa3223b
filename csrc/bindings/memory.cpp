// torch_trainium._C.memory: statistics, snapshots, pools and raw allocations.
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/AllocatorConfig.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/profiler/combined_traceback.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "core/allocator.h"
#include "core/device.h"
#include "core/host_allocator.h"

namespace py = pybind11;

namespace torch_trainium {
namespace {

using c10::CachingAllocator::DurationStat;
using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::SegmentInfo;
using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;

py::dict stat_dict(const Stat& stat) {
  py::dict dict;
  dict["current"] = stat.current;
  dict["peak"] = stat.peak;
  dict["allocated"] = stat.allocated;
  dict["freed"] = stat.freed;
  return dict;
}

py::dict stat_dict(const StatArray& stats) {
  py::dict dict;
  dict["all"] = stat_dict(stats[0]);
  dict["small_pool"] = stat_dict(stats[1]);
  dict["large_pool"] = stat_dict(stats[2]);
  return dict;
}

py::dict stat_dict(const DurationStat& stat) {
  py::dict dict;
  dict["total"] = stat.total;
  dict["max"] = stat.max;
  dict["min"] = stat.min;
  dict["count"] = stat.count;
  dict["avg"] = stat.count == 0 ? 0 : stat.total / stat.count;
  return dict;
}

py::dict memory_stats(c10::DeviceIndex device) {
  const auto stats = device_allocator()->getDeviceStats(device);
  py::dict dict;
  dict["num_alloc_retries"] = stats.num_alloc_retries;
  dict["num_ooms"] = stats.num_ooms;
  dict["max_split_size"] = stats.max_split_size;
  dict["num_sync_all_streams"] = stats.num_sync_all_streams;
  dict["num_device_alloc"] = stats.num_device_alloc;
  dict["num_device_free"] = stats.num_device_free;
  dict["num_oom_rejections"] = stats.num_oom_rejections;
  dict["allocation"] = stat_dict(stats.allocation);
  dict["segment"] = stat_dict(stats.segment);
  dict["active"] = stat_dict(stats.active);
  dict["inactive_split"] = stat_dict(stats.inactive_split);
  dict["allocated_bytes"] = stat_dict(stats.allocated_bytes);
  dict["reserved_bytes"] = stat_dict(stats.reserved_bytes);
  dict["active_bytes"] = stat_dict(stats.active_bytes);
  dict["inactive_split_bytes"] = stat_dict(stats.inactive_split_bytes);
  dict["requested_bytes"] = stat_dict(stats.requested_bytes);
  dict["oversize_allocations"] = stat_dict(stats.oversize_allocations);
  dict["oversize_segments"] = stat_dict(stats.oversize_segments);
  py::dict by_pool;
  for (const auto& [id, by_kind] : stats.reserved_bytes_by_private_pools) {
    by_pool[py::make_tuple(id.first, id.second)] = stat_dict(by_kind);
  }
  dict["reserved_bytes_by_private_pools"] = by_pool;
  return dict;
}

py::dict host_memory_stats() {
  const at::HostStats stats = pinned_host_allocator()->get_stats();
  py::dict dict;
  dict["num_host_alloc"] = stats.num_host_alloc;
  dict["num_host_free"] = stats.num_host_free;
  dict["allocations"] = stat_dict(stats.allocations);
  dict["allocated_bytes"] = stat_dict(stats.allocated_bytes);
  dict["active_requests"] = stat_dict(stats.active_requests);
  dict["active_bytes"] = stat_dict(stats.active_bytes);
  dict["host_alloc_time"] = stat_dict(stats.host_alloc_time);
  dict["host_free_time"] = stat_dict(stats.host_free_time);
  dict["locked_bytes"] = locked_host_bytes();
  return dict;
}

// Turns recorded stacks into lists of frames, each frame object shared by all
// stacks it is in.
class FrameLists {
 public:
  // `frames` is filled by resolve().
  void request(const std::shared_ptr<c10::GatheredContext>& context, const py::list& frames) {
    if (context != nullptr) {
      stacks_.push_back(torch::getCapturedTracebackFromContext(context));
      lists_.push_back(frames);
    }
  }

  void resolve() {
    const torch::SymbolizedTracebacks symbolized = torch::symbolize(stacks_);
    std::vector<py::dict> frames;
    frames.reserve(symbolized.all_frames.size());
    for (const auto& frame : symbolized.all_frames) {
      py::dict& dict = frames.emplace_back();
      dict["name"] = frame.funcname;
      dict["filename"] = frame.filename;
      dict["line"] = frame.lineno;
    }
    for (size_t i = 0; i < lists_.size(); ++i) {
      for (const uint64_t frame : symbolized.tracebacks[i]) {
        lists_[i].append(frames[frame]);
      }
    }
  }

 private:
  std::vector<torch::CapturedTraceback*> stacks_;
  std::vector<py::list> lists_;
};

py::tuple pool_tuple(const c10::MempoolId_t& id) { return py::make_tuple(id.first, id.second); }

int64_t stream_number(void* stream) { return reinterpret_cast<int64_t>(stream); }

const char* state_name(const BlockInfo& block) {
  if (block.allocated) {
    return "active_allocated";
  }
  return block.active ? "active_awaiting_free" : "inactive";
}

py::dict segment_dict(const SegmentInfo& segment, FrameLists& stacks) {
  py::dict dict;
  dict["device"] = segment.device;
  dict["address"] = segment.address;
  dict["total_size"] = segment.total_size;
  dict["allocated_size"] = segment.allocated_size;
  dict["active_size"] = segment.active_size;
  dict["requested_size"] = segment.requested_size;
  dict["stream"] = stream_number(segment.stream);
  dict["segment_type"] = segment.is_large ? "large" : "small";
  dict["segment_pool_id"] = pool_tuple(segment.owner_private_pool_id);
  dict["is_expandable"] = segment.is_expandable;
  py::list segment_frames;
  stacks.request(segment.context_when_allocated, segment_frames);
  dict["frames"] = segment_frames;
  py::list blocks;
  size_t address = segment.address;
  for (const BlockInfo& info : segment.blocks) {
    py::dict block;
    block["address"] = address;
    block["size"] = info.size;
    block["requested_size"] = info.requested_size;
    block["state"] = state_name(info);
    py::list frames;
    stacks.request(info.context_when_allocated, frames);
    block["frames"] = frames;
    blocks.append(block);
    address += info.size;
  }
  dict["blocks"] = blocks;
  return dict;
}

const char* action_name(TraceEntry::Action action) {
  switch (action) {
    case TraceEntry::ALLOC:
      return "alloc";
    case TraceEntry::FREE_REQUESTED:
      return "free_requested";
    case TraceEntry::FREE_COMPLETED:
      return "free_completed";
    case TraceEntry::SEGMENT_ALLOC:
      return "segment_alloc";
    case TraceEntry::SEGMENT_FREE:
      return "segment_free";
    case TraceEntry::SEGMENT_MAP:
      return "segment_map";
    case TraceEntry::SEGMENT_UNMAP:
      return "segment_unmap";
    case TraceEntry::SNAPSHOT:
      return "snapshot";
    case TraceEntry::OOM:
      return "oom";
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 14
    case TraceEntry::ANNOTATE:
      return "annotate";
#endif
  }
  TORCH_INTERNAL_ASSERT(false, "unknown trace action ", static_cast<int>(action));
}

py::dict trace_dict(const TraceEntry& entry, FrameLists& stacks) {
  py::dict dict;
  dict["action"] = action_name(entry.action_);
  dict[entry.action_ == TraceEntry::OOM ? "device_free" : "addr"] = entry.addr_;
  dict["size"] = entry.size_;
  dict["stream"] = stream_number(entry.stream_);
  dict["time_us"] = entry.time_.t_ / 1000;
  dict["pool_id"] = pool_tuple(entry.mempool_);
  py::list frames;
  stacks.request(entry.context_, frames);
  dict["frames"] = frames;
  return dict;
}

py::dict settings_dict() {
  py::dict dict;
  dict["PYTORCH_ALLOC_CONF"] = Config::last_allocator_settings();
  dict["max_split_size"] = static_cast<int64_t>(Config::max_split_size());
  dict["garbage_collection_threshold"] = Config::garbage_collection_threshold();
  dict["expandable_segments"] = false;
  return dict;
}

py::dict snapshot_dict(std::optional<c10::MempoolId_t> pool, bool with_traces) {
  const MemorySnapshot snapshot = memory_snapshot(pool, with_traces);
  FrameLists stacks;
  py::list segments;
  for (const SegmentInfo& segment : snapshot.segments) {
    segments.append(segment_dict(segment, stacks));
  }
  py::list traces;
  for (const auto& device_trace : snapshot.device_traces) {
    py::list entries;
    for (const TraceEntry& entry : device_trace) {
      entries.append(trace_dict(entry, stacks));
    }
    traces.append(entries);
  }
  stacks.resolve();
  py::dict dict;
  dict["segments"] = segments;
  dict["device_traces"] = traces;
  dict["allocator_settings"] = settings_dict();
  dict["external_annotations"] = py::list();
  return dict;
}

std::shared_ptr<c10::GatheredContext> gather_python() {
  return torch::CapturedTraceback::gather(true, true, false);
}

std::shared_ptr<c10::GatheredContext> gather_python_and_cpp() {
  return torch::CapturedTraceback::gather(true, true, true);
}

// `enabled` and `context` as in torch.cuda.memory._record_memory_history.
void record_history(const std::optional<std::string>& enabled,
                    const std::optional<std::string>& context, const std::string& stacks,
                    size_t max_entries, bool clear_history,
                    const std::vector<std::string>& skip_actions) {
  const auto check_option = [](const char* name, const std::string& value,
                               const std::vector<std::string>& options) {
    TORCH_CHECK_VALUE(std::ranges::find(options, value) != options.end(), "expected ", name,
                      " to be one of ", c10::Join(", ", options), " but got ", value);
  };
  TraceOptions options;
  options.enabled = enabled.has_value();
  options.max_entries = max_entries;
  if (enabled) {
    check_option("enabled", *enabled, {"state", "all"});
    if (*enabled == "state") {
      options.max_entries = 1;
    }
  }
  if (context) {
    check_option("context", *context, {"state", "alloc", "all"});
    options.record = *context == "state"   ? RecordContext::STATE
                     : *context == "alloc" ? RecordContext::ALLOC
                                           : RecordContext::ALL;
  }
  check_option("stacks", stacks, {"python", "all"});
  options.gather = stacks == "python" ? gather_python : gather_python_and_cpp;
  for (const std::string& action : skip_actions) {
    options.skipped_actions.push_back(c10::CachingDeviceAllocator::parseTraceEntryAction(action));
  }
  record_memory_history(options, clear_history);
}

py::object allocation_traceback(size_t address) {
  const auto context = allocation_context(reinterpret_cast<const void*>(address));
  if (context == nullptr) {
    return py::none();
  }
  FrameLists stacks;
  py::list frames;
  stacks.request(context, frames);
  stacks.resolve();
  return frames;
}

// Allocations handed to Python as bare addresses.
class RawAllocations {
 public:
  size_t allocate(size_t bytes, c10::DeviceIndex device, int64_t stream) {
    check_device(device);
    c10::DataPtr data = allocate_device_memory(
        bytes, c10::Stream(c10::Stream::UNSAFE, c10::Device(kNeuron, device), stream));
    const auto address = reinterpret_cast<size_t>(data.get());
    const std::lock_guard lock(mutex_);
    live_.emplace(address, std::move(data));
    return address;
  }

  void release(size_t address) {
    std::unique_lock lock(mutex_);
    const auto released = live_.extract(address);
    lock.unlock();
    TORCH_CHECK_VALUE(!released.empty(), "Address ", address,
                      " was not returned by caching_allocator_alloc, or is deleted already");
  }

 private:
  std::mutex mutex_;
  std::unordered_map<size_t, c10::DataPtr> live_;
};

RawAllocations& raw_allocations() {
  static auto* allocations = new RawAllocations;
  return *allocations;
}

class MemPool {
 public:
  MemPool(c10::DeviceIndex device, bool use_on_oom, bool no_split)
      : id_(create_memory_pool(device, use_on_oom, no_split)), device_(device) {}
  ~MemPool() { release_memory_pool(id_, device_); }
  MemPool(const MemPool&) = delete;
  MemPool& operator=(const MemPool&) = delete;

  c10::MempoolId_t id() const { return id_; }
  c10::DeviceIndex device() const { return device_; }
  int use_count() const { return memory_pool_use_count(id_, device_); }

 private:
  const c10::MempoolId_t id_;
  const c10::DeviceIndex device_;
};

}  // namespace

void bind_memory(py::module_& m) {
  py::module_ memory = m.def_submodule("memory", "Device and pinned memory.");
  memory.def("memory_stats", &memory_stats);
  memory.def("reset_peak_memory_stats",
             [](c10::DeviceIndex device) { device_allocator()->resetPeakStats(device); });
  memory.def("reset_accumulated_memory_stats",
             [](c10::DeviceIndex device) { device_allocator()->resetAccumulatedStats(device); });
  memory.def("mem_get_info",
             [](c10::DeviceIndex device) { return device_allocator()->getMemoryInfo(device); });
  memory.def("empty_cache", [](std::optional<c10::MempoolId_t> pool) {
    device_allocator()->emptyCache(pool.value_or(c10::MempoolId_t{0, 0}));
  });
  memory.def("set_memory_fraction", &set_memory_fraction);
  memory.def("memory_fraction", &memory_fraction);

  memory.def("snapshot", &snapshot_dict);
  memory.def("record_history", &record_history);
  memory.def("allocation_traceback", &allocation_traceback);

  memory.def("raw_allocate", [](size_t bytes, c10::DeviceIndex device, int64_t stream) {
    return raw_allocations().allocate(bytes, device, stream);
  });
  memory.def("raw_delete", [](size_t address) { raw_allocations().release(address); });

  py::class_<MemPool>(memory, "MemPool")
      .def(py::init<c10::DeviceIndex, bool, bool>())
      .def_property_readonly("id", &MemPool::id, "The pool's id: two integers.")
      .def_property_readonly("device", &MemPool::device, "The index of the pool's device.")
      .def("use_count", &MemPool::use_count,
           "How many hold the pool: the pool itself, and each use_mem_pool that is active.");
  memory.def("begin_allocating_to_pool", &begin_allocating_to_pool);
  memory.def("end_allocating_to_pool", &end_allocating_to_pool);

  memory.def("host_memory_stats", &host_memory_stats);
  memory.def("reset_peak_host_memory_stats", [] { pinned_host_allocator()->reset_peak_stats(); });
  memory.def("reset_accumulated_host_memory_stats",
             [] { pinned_host_allocator()->reset_accumulated_stats(); });
  memory.def("empty_host_cache", [] { pinned_host_allocator()->empty_cache(); });
}

}  // namespace torch_trainium
