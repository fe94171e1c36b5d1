#pragma once  // engine/waiter.hpp: how a waiter spends the time until a move ends.

#include <gantry/engine.hpp>

#include "engine/lane_progress.hpp"

namespace gantry {

/// The questions of a waiter to its lane.
class WaitTarget {
 public:
  WaitTarget() = default;
  WaitTarget(const WaitTarget&) = delete;
  WaitTarget& operator=(const WaitTarget&) = delete;

  virtual bool help(Ticket ticket) = 0;
  virtual std::size_t poll_once() = 0;
  [[nodiscard]] virtual std::chrono::nanoseconds left(Ticket ticket) const noexcept = 0;
  [[nodiscard]] virtual bool ends_unpolled() const noexcept = 0;
  [[nodiscard]] virtual LaneProgress& awaited() noexcept = 0;

 protected:
  ~WaitTarget() = default;
};

/// Hybrid waiting. While the predicted end is far the thread sleeps to shortly before it; it polls
/// the last part. What it learns is kept in relaxed atomics: a lost update costs one worse guess.
///   Bound: where moves end unpolled the end wakes the sleeper. Where they do not, one sleep lasts
///   at most kBlindSleep or a quarter of the time waited so far, whichever is more. So a wrong
///   prediction makes the wait at most that much, and the timer's lateness, longer than polling.
class Waiter {
 public:
  [[nodiscard]] Outcome wait(WaitTarget& target, Ticket ticket, Deadline deadline,
                             WaitStrategy waiting) noexcept;
  /// The part of a predicted time that would be slept; zero: all of it would be polled.
  [[nodiscard]] std::chrono::nanoseconds sleepable(
      std::chrono::nanoseconds predicted) const noexcept;

  static constexpr std::chrono::nanoseconds kBlindSleep{100'000};

 private:
  struct Turn;
  bool sleep_some(Turn& turn) noexcept;
  [[nodiscard]] std::uint64_t plan_sleep(Turn& turn, std::uint64_t now_ns) const noexcept;
  void learn(std::uint64_t lateness_ns, bool ended) noexcept;
  [[nodiscard]] std::uint64_t sleepable_ns(std::uint64_t left_ns) const noexcept;

  std::atomic<std::uint64_t> lateness_ns_{70'000};  // of a timer: slack and scheduling
  // thousandths of a prediction that are not slept
  std::atomic<std::uint32_t> caution_{100};
};

}  // namespace gantry
