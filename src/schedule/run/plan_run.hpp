#pragma once  // schedule/run/plan_run.hpp: one run of a plan at one rank.

#include <deque>

#include "group/rank_page.hpp"
#include "schedule/run/device_steps.hpp"
#include "schedule/run/host_steps.hpp"
#include "schedule/run/rank_script.hpp"
#include "schedule/run/run_trace.hpp"

namespace gantry {

/// What does not change from run to run.
struct PreparedPlan {
  Plan plan;
  std::uint64_t hash = 0;
  RankScript script;
  PlanPlaces places;
  std::uint64_t operation = 0;  ///< The group's common call that prepared it.

  /// Says which one runs: the same text may be prepared twice, over other memory.
  [[nodiscard]] std::uint64_t word() const noexcept { return hash ^ operation; }
};

/// Where a rank's steps are computed. Null: it has none of them.
struct RankComputing {
  std::unique_ptr<EndedSteps> ended;
  std::unique_ptr<HostSteps> host;
  std::unique_ptr<DeviceSteps> device;  ///< Products, if a device computes them.

  /// Nothing is under way when it returns.
  void cancel() noexcept;
  [[nodiscard]] std::chrono::nanoseconds take_busy_time() noexcept;
};

/// Hands steps over to the compute thread and to the links as soon as what they wait for has
/// happened, and listens to what comes.
///   I1  A step is handed over once, after its count has come to 0.
///   I2  Nothing goes to a rank before it has said that it runs the same plan.
///   I3  When go() returns without error, every transfer from or to this rank's memory has ended.
class PlanRunLoop {
 public:
  PlanRunLoop(const PreparedPlan& prepared, Group::Impl& group, RankComputing& computing);

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
  void end(std::uint32_t item, const EndedStep* times = nullptr);
  void run_ready();
  void queue(std::uint32_t item);
  [[nodiscard]] std::uint64_t signal_of(std::uint32_t step) const noexcept;
  [[nodiscard]] bool needs(unsigned peer) const noexcept;
  [[nodiscard]] bool is_over() const noexcept;
  void wait_for_news(Deadline deadline);
  // What the rank's page says; before it sleeps, since it costs more than a store.
  void show();
  void show_absent(std::vector<RankPage::At>& at) const;
  void show_under_way(std::vector<RankPage::At>& at);
  void show_awaited(std::vector<RankPage::At>& at);
  [[nodiscard]] RankPageStep page_step(std::uint32_t step) const noexcept;
  [[nodiscard]] std::optional<std::uint32_t> awaited_step() noexcept;
  [[nodiscard]] std::string what_it_waits_for() const;
  [[nodiscard]] Error told(unsigned peer, Error error) const;

  const PreparedPlan& prepared_;
  const RankScript& script_;
  Group::Impl& group_;
  RankComputing& computing_;
  std::vector<std::uint32_t> awaits_;  // by item
  std::vector<bool> has_ended_;        // by item
  std::vector<bool> has_come_;         // by step of other ranks
  std::deque<std::uint32_t> ready_;    // their counts are 0
  std::vector<Peer> peers_;
  std::vector<EndedStep> ended_;
  std::size_t items_left_ = 0;
  std::uint32_t arrivals_left_ = 0;
  unsigned peers_left_ = 0;  // that are not ready
  const bool polls_;         // a while, before it sleeps
  Deadline::Clock::time_point moved_at_{};
  PlanRun run_;
  RunTrace trace_;
  // The first own step that has not ended, and the first other that has not come, or earlier ones.
  std::size_t first_open_ = 0;
  std::size_t first_awaited_ = 0;
  bool is_shown_ = false;  // nothing has moved since
};

}  // namespace gantry
