#pragma once  // engine/policy/policy_lane.hpp: a lane of the engine "auto".

#include "engine/policy/route_queue.hpp"

namespace gantry {

/// The lanes that execute also wait: each knows best when it ends. Moves end when somebody looks
/// (submits, polls, waits, asks for an outcome), or by the watcher, where somebody sleeps on the
/// lane's own descriptor.
class PolicyLane final : public Lane, private Watched {
 public:
  PolicyLane(std::shared_ptr<PolicyEngine> engine, const LaneOptions& options);
  ~PolicyLane() override;

  using Lane::submit;
  Result<Ticket> submit(std::span<const Move> batch, SubmitMode mode) override;
  std::size_t poll() override;
  Outcome outcome(Ticket ticket) const noexcept override;
  Outcome wait(Ticket ticket, Deadline deadline, WaitStrategy waiting) override;
  void cancel() noexcept override;
  Result<int> event_descriptor() override;
  Explanation explain(const Move& move, SubmitMode mode) const override;

  [[nodiscard]] const EngineCounters& counters() const noexcept { return queue_.counters(); }

  // For the engine's stop().
  void close() noexcept;  ///< Takes no more moves.
  void drain() noexcept;  ///< Waits for the moves that it took.

 private:
  [[nodiscard]] Ticket try_copy(const Move& move) noexcept;
  [[nodiscard]] Result<Ticket> slow_submit_small(const Move& move, SubmitMode mode);
  [[nodiscard]] Outcome slow_wait(Ticket ticket, Deadline deadline, WaitStrategy waiting);
  [[nodiscard]] Result<Ticket> slow_submit(std::span<const Move> batch, SubmitMode mode);
  [[nodiscard]] Result<void> make_room(RouteQueue::Lock& lock, std::size_t moves);
  [[nodiscard]] Result<void> be_watched();
  void look() noexcept override;

  std::shared_ptr<PolicyEngine> engine_;
  LaneOptions options_;
  bool closed_ = false;       // under the queue's lock
  mutable RouteQueue queue_;  // looking at a ticket takes in what has ended meanwhile
};

}  // namespace gantry
