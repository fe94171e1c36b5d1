#pragma once  // engine/thread/worker.hpp: a thread that is parked while there is nothing to do.

#include <atomic>
#include <cstdint>
#include <functional>
#include <gantry/types.hpp>
#include <thread>

#include "engine/thread/thread_engine.hpp"

namespace gantry {

/// Whoever takes a worker out of the scheduler's list of idle ones, under the lock, owes it one
/// wake(), after the lock. [K]: what was done before wake() is seen after park().
class Worker {
 public:
  explicit Worker(unsigned group) noexcept : group_(group) {}

  [[nodiscard]] unsigned group() const noexcept { return group_; }

  /// Runs `body` on a thread of its own at `place`. Signals go to other threads, except those that
  /// a thread raises itself. Errors: `system`.
  template <class Body>
  [[nodiscard]] Result<void> start(const WorkerPlace& place, Body body) {
    return start_thread([place, body] {
      settle_at(place);
      body();
    });
  }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  /// For a forked child, where the thread does not exist and cannot be joined.
  void forget_thread() noexcept;

  void prepare_to_park() noexcept { awake_.store(0, std::memory_order_relaxed); }  // under the lock
  void park() noexcept;
  void wake() noexcept;

  Worker* next_idle = nullptr;  // the scheduler's

 private:
  [[nodiscard]] Result<void> start_thread(std::function<void()> body);
  static void settle_at(const WorkerPlace& place) noexcept;

  unsigned group_;
  std::atomic<std::uint32_t> awake_{1};
  std::thread thread_;
};

}  // namespace gantry
