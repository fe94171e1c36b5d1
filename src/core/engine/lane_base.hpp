#pragma once  // engine/lane_base.hpp: the half of a lane that all engines share, and how it waits.

#include <gantry/engine.hpp>

#include "core/engine/lane_progress.hpp"

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

/// Base of an engine's lane. The engine gives out tickets and retires moves in their order; this
/// class looks, sleeps, wakes and waits, and asks the engine the questions below.
class LaneBase : public Lane, private WaitTarget {
 public:
  [[nodiscard]] Outcome outcome(Ticket ticket) const noexcept final {
    return progress_.outcome(ticket);
  }
  [[nodiscard]] Outcome wait(Ticket ticket, Deadline deadline, WaitStrategy waiting) final;
  [[nodiscard]] Result<int> event_descriptor() final;
  using Lane::submit;

 protected:
  /// Gives out `count` tickets and returns the last. One thread at a time, by the engine's lock.
  Ticket give_tickets(std::size_t count) noexcept {
    // Relaxed: a ticket reaches another thread by the caller's own synchronisation.
    given_.store(given() + count, std::memory_order_relaxed);
    return Ticket{given()};
  }
  [[nodiscard]] std::uint64_t given() const noexcept {
    return given_.load(std::memory_order_relaxed);  // as above
  }
  /// retire() and announce() as in LaneProgress.
  [[nodiscard]] LaneProgress& progress() noexcept { return progress_; }
  [[nodiscard]] const LaneProgress& progress() const noexcept { return progress_; }
  /// How wait() would wait for the predicted time; for explain().
  [[nodiscard]] WaitStrategy waiting_for(std::chrono::nanoseconds predicted) const noexcept {
    return waiter_.sleepable(predicted).count() > 0 ? WaitStrategy::hybrid : WaitStrategy::poll;
  }

  // Questions of wait() to the engine. Called from any thread, without locks held.

  /// Executes one unit of what the lane has to do before `ticket` ends, in the calling thread.
  /// False: there is nothing to take, or others do it quicker.
  bool help(Ticket ticket) override = 0;
  /// The time until `ticket` ends, by the cost model; zero when it is due or overdue.
  [[nodiscard]] std::chrono::nanoseconds left(Ticket ticket) const noexcept override = 0;
  /// Somebody will sleep until a move ends: from now on moves must end and be announced without
  /// poll(). An engine with threads of its own has nothing to do.
  virtual Result<void> be_watched() { return {}; }
  /// True if moves end and are announced without poll().
  [[nodiscard]] bool ends_unpolled() const noexcept override = 0;

 private:
  std::size_t poll_once() override { return poll(); }
  [[nodiscard]] LaneProgress& awaited() noexcept override { return progress_; }

  std::atomic<std::uint64_t> given_{0};
  LaneProgress progress_;
  Waiter waiter_;
};

}  // namespace gantry
