#include "runtime/runtime.h"

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <optional>

#include "runtime/emulator.h"
#include "runtime/timing_model.h"

namespace torch_trainium::runtime {
namespace {

std::mutex creation_mutex;
Machine configured;
std::optional<TimingModel> configured_timing;
// Leaked on purpose: tensors may die after static destructors ran.
std::atomic<Runtime*> created{nullptr};
std::atomic<bool> forked{false};

void mark_child_unusable() {
  if (created.load(std::memory_order_relaxed) != nullptr) {
    forked.store(true, std::memory_order_relaxed);
  }
}

}  // namespace

void configure(const Machine& machine) {
  const std::lock_guard lock(creation_mutex);
  if (created.load() != nullptr) {
    throw Error(
        "the emulated machine cannot change after a neuron device was first used; choose it before "
        "the first tensor is created");
  }
  configured = machine;
}

const Machine& configured_machine() { return configured; }

void configure_timing(const TimingModel& model) {
  const std::lock_guard lock(creation_mutex);
  if (created.load() == nullptr) configured_timing = model;
}

bool is_timing_configured() noexcept {
  const std::lock_guard lock(creation_mutex);
  return configured_timing.has_value();
}

Runtime& get() {
  if (forked.load(std::memory_order_relaxed)) {
    throw Error(
        "cannot use a neuron device in a forked subprocess: the parent process had already used "
        "one. Start workers with the 'spawn' or 'forkserver' method "
        "(torch.multiprocessing.set_start_method('spawn')), or use the device first in the child");
  }
  if (Runtime* runtime = created.load(std::memory_order_acquire)) {
    return *runtime;
  }
  const std::lock_guard lock(creation_mutex);
  if (created.load() == nullptr) {
    if (configured.device_count <= 0) {
      throw Error("no neuron device is configured");
    }
    if (!configured_timing) {
      throw Error("the emulator has no timing model");
    }
    std::unique_ptr<Runtime> runtime = create_emulator(configured, *configured_timing);
    pthread_atfork(nullptr, nullptr, mark_child_unusable);
    created.store(runtime.release(), std::memory_order_release);
  }
  return *created.load();
}

bool is_created() noexcept { return created.load(std::memory_order_relaxed) != nullptr; }

bool is_in_bad_fork() noexcept { return forked.load(std::memory_order_relaxed); }

}  // namespace torch_trainium::runtime
