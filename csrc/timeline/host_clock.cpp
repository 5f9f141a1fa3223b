#include "timeline/host_clock.h"

#include <algorithm>

namespace torch_trainium::timeline {
namespace {

std::atomic<HostClock*> first_clock{nullptr};
std::atomic<HostClock::NewThreadHook> new_thread_hook{nullptr};

// The first thread's clock stays: others look at it until the process ends.
struct ThreadClock {
  ThreadClock() {
    HostClock* none = nullptr;
    auto* kept = new std::shared_ptr<HostClock>(clock);
    if (first_clock.compare_exchange_strong(none, kept->get())) return;
    delete kept;
    clock->wait_until(none->last_action_ps());
    if (const HostClock::NewThreadHook hook = new_thread_hook.load()) hook(clock);
  }
  ~ThreadClock() { clock->retire(); }
  const std::shared_ptr<HostClock> clock = std::make_shared<HostClock>();
};

ThreadClock& thread_clock() {
  thread_local ThreadClock mine;
  return mine;
}

void raise_to(std::atomic<int64_t>& value, int64_t floor) {
  int64_t seen = value.load(std::memory_order_relaxed);
  while (seen < floor && !value.compare_exchange_weak(seen, floor, std::memory_order_relaxed)) {
  }
}

}  // namespace

HostClock& HostClock::of_this_thread() {
  thread_local constinit HostClock* mine = nullptr;
  if (mine == nullptr) mine = thread_clock().clock.get();
  return *mine;
}

std::shared_ptr<HostClock> HostClock::share_of_this_thread() { return thread_clock().clock; }

int64_t HostClock::now_ps() const {
  return std::max(now_ps_.load(std::memory_order_relaxed),
                  caught_up_ps_.load(std::memory_order_relaxed));
}

void HostClock::retire() {
  HostClock* first = first_clock.load();
  if (first != this) first->catch_up(now_ps());
}

void HostClock::set_new_thread_hook(NewThreadHook hook) { new_thread_hook.store(hook); }

void HostClock::catch_up(int64_t time_ps) { raise_to(caught_up_ps_, time_ps); }

void HostClock::follow(const std::shared_ptr<HostClock>& leader, int64_t task) {
  if (task == task_ && leader == leader_) return;
  task_ = task;
  leader_ = leader;
  now_ps_.store(leader->fork_ps(task), std::memory_order_relaxed);
}

int64_t HostClock::fork_ps(int64_t task) {
  constexpr size_t kKept = 64;
  const std::lock_guard lock(forks_mutex_);
  const auto [fork, is_first] = forks_ps_.try_emplace(task, now_ps());
  const int64_t time_ps = fork->second;
  if (forks_ps_.size() > kKept) forks_ps_.erase(forks_ps_.begin());
  return time_ps;
}

void HostClock::unfollow() {
  if (leader_ == nullptr) return;
  task_ = kNoTask;
  leader_.reset();
}

void HostClock::set(int64_t time_ps) {
  now_ps_.store(time_ps, std::memory_order_relaxed);
  if (leader_ != nullptr) leader_->catch_up(time_ps);
}

}  // namespace torch_trainium::timeline
