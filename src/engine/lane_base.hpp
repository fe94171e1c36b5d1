#pragma once  // engine/lane_base.hpp: the half of a lane that all engines share.

#include <gantry/engine.hpp>

#include "engine/lane_progress.hpp"
#include "engine/waiter.hpp"

namespace gantry {

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
