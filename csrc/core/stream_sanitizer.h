// Finds accesses to one memory that nothing orders: work on two streams, or work
// and the host. It knows what waits for what, not how long anything takes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/memory_history.h"
#include "core/stream_clocks.h"
#include "runtime/work_observer.h"

namespace torch_trainium {

// Two uses of which at least one writes.
struct StreamRace {
  enum class Kind : uint8_t {
    kUseWithoutWait,
    kReuseWithoutWait,     // the memory is that of a freed tensor of the earlier stream
    kMissingRecordStream,  // the earlier stream was not the one of the freed tensor
    kEarlyHostAccess,
  };

  Kind kind;
  TensorUse later;
  std::optional<runtime::StreamName> later_stream;  // none: the host
  TensorUse earlier;
  runtime::StreamName earlier_stream;
};

class StreamSanitizer final : public runtime::WorkObserver, public runtime::OrderObserver {
 public:
  // The calling thread's line of the user's program; called without locks held.
  using LineSource = uint32_t (*)();
  // Called on the thread of the later use, without locks held. What it throws where
  // that is device work, the operator raises.
  using RaceReport = std::function<void(const StreamRace&)>;

  // Never destroyed: see the observers.
  static StreamSanitizer& instance();

  void start(LineSource current_line, RaceReport report);
  void stop();
  bool is_running() const { return running_.load(std::memory_order_relaxed); }

  // Whether device work in flight uses any host memory.
  bool watches_host() const { return watches_host_.load(std::memory_order_relaxed); }
  // The host is about to use a CPU tensor.
  void host_uses(const timeline::Access& access, uint32_t operator_id);

  void observe(const runtime::Work& work, const timeline::OperatorCall& call,
               const runtime::WorkTimes& times) override;

  void event_recorded(const void* event, runtime::StreamName stream) noexcept override;
  void event_destroyed(const void* event) noexcept override;
  void stream_waits(runtime::StreamName stream, const void* event) noexcept override;
  void host_passed_event(const void* event) noexcept override;
  void host_passed_stream(runtime::StreamName stream) noexcept override;
  void host_passed_device(int device) noexcept override;
  void memory_recorded(const std::byte* begin, size_t bytes,
                       runtime::StreamName stream) noexcept override;
  void memory_freed(const std::byte* begin, size_t bytes,
                    runtime::StreamName owner) noexcept override;
  void memory_released(const std::byte* begin, size_t bytes) noexcept override;

 private:
  struct State {
    StreamClocks clocks;
    MemoryHistory device_memory;
    MemoryHistory host_memory;
  };

  StreamSanitizer() = default;
  // The two below need the lock held.
  void find_races(const runtime::Work& work, const timeline::Access& access, uint32_t line,
                  StreamClocks::Point now, bool is_awaited, std::vector<StreamRace>& races);
  void host_has_waited();

  std::atomic<LineSource> current_line_{nullptr};
  std::mutex mutex_;
  std::shared_ptr<const RaceReport> report_;  // guarded by mutex_, as state_ is
  std::atomic<bool> running_{false};
  std::atomic<bool> watches_host_{false};
  State state_;
};

}  // namespace torch_trainium
