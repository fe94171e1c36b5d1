#pragma once  // schedule/run/plan_run.hpp: one run of a plan at one rank.

#include <deque>

#include "schedule/run/compute_thread.hpp"
#include "schedule/run/rank_script.hpp"

namespace gantry {

/// What does not change from run to run.
struct PreparedPlan {
  Plan plan;
  std::uint64_t hash = 0;
  RankScript script;
  PlanPlaces places;
};

/// Hands steps over to the compute thread and to the links as soon as what they wait for has
/// happened, and listens to what comes.
///   I1  A step is handed over once, after its count has come to 0.
///   I2  Nothing goes to a rank before it has said that it runs the same plan.
///   I3  When go() returns without error, every transfer from or to this rank's memory has ended.
class PlanRunLoop {
 public:
  /// `compute`: null if there is nothing to compute.
  PlanRunLoop(const PreparedPlan& prepared, Group::Impl& group, ComputeThread* compute);

  /// Errors: what failed first, here or at another rank; the group is not told yet.
  [[nodiscard]] Result<PlanRun> go(Deadline deadline);

 private:
  using Queue = RankScript::Queue;
  struct UnderWay {
    Ticket ticket{};
    std::optional<std::uint32_t> item{};  // none: a barrier's word
  };
  struct Queued {
    Transfer transfer;
    bool is_get = false;
    std::optional<std::uint32_t> item{};
  };
  struct Peer {
    bool is_ready = false;
    std::uint32_t arrivals_left = 0;
    std::deque<Queued> waiting;
    std::vector<UnderWay> under_way;
  };

  [[nodiscard]] Result<void> announce();
  [[nodiscard]] Result<bool> turn();
  [[nodiscard]] Result<void> turn_with(unsigned peer, bool has_moved);
  [[nodiscard]] Result<void> hear_ready(unsigned peer);
  void hear_signals(unsigned peer);
  [[nodiscard]] Result<void> end_transfers(unsigned peer);
  [[nodiscard]] Result<void> send_waiting(unsigned peer);
  [[nodiscard]] Result<bool> end_computing();

  void count_down(std::uint32_t item);
  void hand_over(std::uint32_t item);
  void settle(std::uint32_t item, bool has_ended);
  void run_ready();
  void queue(std::uint32_t item);
  [[nodiscard]] std::uint64_t signal_of(std::uint32_t step) const noexcept;
  [[nodiscard]] bool needs(unsigned peer) const noexcept;
  [[nodiscard]] bool is_over() const noexcept;
  void wait_for_news(Deadline deadline);
  [[nodiscard]] std::string what_it_waits_for() const;
  [[nodiscard]] Error told(unsigned peer, Error error) const;

  const PreparedPlan& prepared_;
  const RankScript& script_;
  Group::Impl& group_;
  ComputeThread* const compute_;
  std::vector<std::uint32_t> awaits_;  // by item
  std::vector<bool> has_ended_;        // by item
  std::vector<bool> has_come_;         // by step of other ranks
  std::deque<std::uint32_t> ready_;    // their counts are 0
  std::vector<Peer> peers_;
  std::vector<ComputeThread::Ended> ended_;
  std::size_t items_left_ = 0;
  std::uint32_t arrivals_left_ = 0;
  unsigned peers_left_ = 0;  // that are not ready
  const bool polls_;         // a while, before it sleeps
  Deadline::Clock::time_point moved_at_{};
  PlanRun run_;
};

}  // namespace gantry
