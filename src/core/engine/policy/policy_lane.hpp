#pragma once  // engine/policy/policy_lane.hpp: a lane of the engine "auto".

#include "core/engine/lane_progress.hpp"
#include "core/engine/policy/policy_engine.hpp"
#include "core/sync/brief_mutex.hpp"

namespace gantry {

/// Each move goes to the lane of one engine, which executes it and also waits: it knows best when
/// the move ends. Moves end when somebody looks (submits, polls, waits, asks for an outcome), or by
/// the watcher, where somebody sleeps on the lane's own descriptor.
///   I1  ended <= given. Moves (ended, given] have an entry each, and end in that order.
///   I2  Only the holder of `submitting_` starts moves and opens lanes. It lets go of `mutex_`
///   while
///       it hands a move over (the engine may execute it right there), whose entry is `starting`:
///       its own until it says otherwise.
class PolicyLane final : public Lane {
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

  /// For the watcher, when a move of a watched lane ended.
  void look() noexcept;
  /// Counters of moves that were executed within submit() without an entry; any thread.
  [[nodiscard]] const EngineCounters& counters() const noexcept { return counters_; }

 private:
  using Lock = std::unique_lock<BriefMutex>;
  using Lanes = std::array<Lane*, kMaxPolicyEngines>;  // null: not open
  enum class State : std::uint8_t { starting, away, over };
  struct Entry {
    Move move;              // as submitted
    Completion completion;  // ours; the engine writes it
    Ticket there{};         // of `away`, in the lane of `engine`
    std::size_t engine = 0;
    State state = State::starting;
  };

  [[nodiscard]] std::uint64_t given() const noexcept {
    // Relaxed: a ticket reaches other threads by its owner's means.
    return given_.load(std::memory_order_relaxed);
  }
  Ticket give(std::size_t count) noexcept {
    given_.store(given() + count, std::memory_order_relaxed);  // see given()
    return Ticket{given()};
  }
  [[nodiscard]] Ticket try_copy(const Move& move) noexcept;
  [[nodiscard]] Result<Ticket> slow_submit_small(const Move& move, SubmitMode mode);
  [[nodiscard]] Result<Ticket> slow_submit(std::span<const Move> batch, SubmitMode mode);
  [[nodiscard]] Result<void> make_room(Lock& lock, std::size_t moves);
  [[nodiscard]] Outcome slow_wait(Ticket ticket, Deadline deadline, WaitStrategy waiting);

  // Under mutex_.
  [[nodiscard]] bool is_idle() const noexcept { return given() == progress_.ended(); }
  [[nodiscard]] Entry& entry(std::uint64_t ticket) const noexcept;
  void add(std::span<const Move> batch) noexcept;
  void start(Entry& entry, SubmitMode mode, std::uint64_t cancels, Lock& lock) noexcept;
  [[nodiscard]] std::size_t choose(Move& move, SubmitMode mode) const noexcept;
  [[nodiscard]] bool is_over(const Entry& entry) const noexcept;
  std::size_t collect() const noexcept;
  void end(Entry& entry) const noexcept;
  [[nodiscard]] const Entry* last_away(Ticket ticket) const noexcept;
  [[nodiscard]] Lanes open_lanes() const noexcept;

  // Without it.
  [[nodiscard]] Result<Ticket> hand_over(std::size_t engine, const Move& move, SubmitMode mode);
  [[nodiscard]] Result<void> watch(Lane& lane);

  std::shared_ptr<PolicyEngine> engine_;
  LaneOptions options_;
  std::mutex submitting_;  // taken before mutex_
  mutable BriefMutex mutex_;
  EngineCounters counters_;
  // Looking at a ticket takes in moves that have ended meanwhile: hence `mutable`.
  mutable LaneProgress progress_;
  mutable std::vector<Entry> entries_;
  mutable EngineBytes own_{};  // bytes `away`
  std::atomic<std::uint64_t> given_{0};
  std::uint64_t cancels_ = 0;
  bool is_watched_ = false;
  std::array<std::unique_ptr<Lane>, kMaxPolicyEngines> lanes_;
  std::array<bool, kMaxPolicyEngines> refused_{};  // for good
};

}  // namespace gantry
