// How far the program on one host thread has come, in virtual time.
//
// Device work is asked for by threads, each with a clock of its own that advances
// by what its requests cost and jumps ahead where it waits for the device. A
// clock may follow another one: autograd's device threads start where the thread
// that called backward() stands, and it goes on where the last of them ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace torch_trainium::timeline {

class HostClock {
 public:
  // The clock of the calling thread. A thread other than the first starts where
  // the first one stood when it last did something, and the first catches up with
  // it when it ends: when its clock is retired, or else when the operating system
  // ends it.
  static HostClock& of_this_thread();
  static std::shared_ptr<HostClock> share_of_this_thread();

  int64_t now_ps() const;
  // The same without what its owner has not taken note of yet.
  int64_t last_action_ps() const { return now_ps_.load(std::memory_order_relaxed); }
  void advance(int64_t duration_ps) { set(now_ps() + duration_ps); }
  void wait_until(int64_t time_ps) {
    if (time_ps > now_ps()) set(time_ps);
  }
  void retire();
  // Called on a thread that asks for its clock for the first time, after which
  // `retire` may be called for it.
  using NewThreadHook = void (*)(const std::shared_ptr<HostClock>& clock);
  static void set_new_thread_hook(NewThreadHook hook);

  // Called by another thread: what this clock's owner waits for ends at `time_ps`.
  void catch_up(int64_t time_ps);

  // Follows `leader` through one task of it: starts where the leader stood when its
  // first follower in the task asked, and lets the leader catch up. Repeated calls
  // for the same task change nothing.
  void follow(const std::shared_ptr<HostClock>& leader, int64_t task);
  void unfollow();

 private:
  void set(int64_t time_ps);
  int64_t fork_ps(int64_t task);

  static constexpr int64_t kNoTask = -1;
  std::atomic<int64_t> now_ps_{0};
  std::atomic<int64_t> caught_up_ps_{0};
  std::mutex forks_mutex_;
  std::map<int64_t, int64_t> forks_ps_;  // by task, the latest ones
  std::shared_ptr<HostClock> leader_;
  int64_t task_ = kNoTask;
};

}  // namespace torch_trainium::timeline
