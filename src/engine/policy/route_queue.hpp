#pragma once  // engine/policy/route_queue.hpp: a lane's moves on their way through other lanes.

#include "engine/lane_progress.hpp"
#include "engine/policy/policy_engine.hpp"
#include "sync/brief_mutex.hpp"

namespace gantry {

// Moves are kept from submit() until their ticket ends, in groups: a batch is one. Each group goes
// to one engine's lane as a whole.
//   I1  ended <= started <= given. Moves (ended, started] have been handed over, or are over and
//       wait for those before them; moves (started, given] wait for their turn, in order.
//   I2  While `handing_over_`, one thread hands a group over without the lock (the engine may
//       execute it right there); nobody else starts a group.
// Members are called under `mutex`, except those that say otherwise.
class RouteQueue {
 public:
  using Lock = std::unique_lock<BriefMutex>;

  RouteQueue(PolicyEngine& engine, std::size_t depth);

  BriefMutex mutex;  // NOLINT(misc-non-private-member-variables-in-classes): its users hold it

  [[nodiscard]] std::size_t room() const noexcept {
    return entries_.size() - static_cast<std::size_t>(given() - progress_.ended());
  }
  [[nodiscard]] bool is_idle() const noexcept { return given() == progress_.ended(); }
  [[nodiscard]] std::size_t depth() const noexcept { return entries_.size(); }
  [[nodiscard]] std::uint64_t given() const noexcept {  // without the lock too
    // a ticket reaches other threads by its owner's means
    return given_.load(std::memory_order_relaxed);
  }

  /// Adds a move that is over already, to an idle lane.
  Ticket add_over(const Completion& completion) noexcept;
  /// The same of a copy of `bytes` in the caller's thread that ended well.
  Ticket add_copied(Bytes bytes) noexcept {
    counters_.count_alone(CopyEngine::inline_, bytes);
    progress_.retire_at_once(Outcome::done);
    return take_ticket();
  }
  Ticket add(std::span<const Move> batch, SubmitMode mode) noexcept;  ///< There must be room.

  /// Ends what is over and starts what can be started; returns how many ended. May let go of the
  /// lock.
  std::size_t drive(Lock& lock) noexcept;
  /// Does only the first half.
  std::size_t collect() noexcept;

  struct Away {
    Lane* lane = nullptr;  ///< Null: there is nothing to wait for elsewhere.
    Ticket ticket{};
  };
  /// The last move up to `ticket` that some lane executes. That lane lives as long as this.
  [[nodiscard]] Away last_away(Ticket ticket) noexcept;

  /// Ends moves that were not handed over as cancelled, in their turn. Then cancel each lane.
  void cancel_waiting() noexcept;

  using Lanes = std::array<Lane*, kMaxPolicyEngines>;
  [[nodiscard]] Lanes open_lanes() const noexcept;  ///< Null: not open.
  [[nodiscard]] const EngineBytes& own() const noexcept { return own_; }
  /// Lanes opened from now on ring this one.
  void be_watched(Watched& by) noexcept { watched_by_ = &by; }
  [[nodiscard]] Result<void> watch(Lane& lane, Watched& by);  ///< Without the lock.

  /// Of moves that were executed within submit(); any thread may read them.
  [[nodiscard]] const EngineCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] LaneProgress& progress() noexcept { return progress_; }  // without the lock too
  [[nodiscard]] const LaneProgress& progress() const noexcept { return progress_; }

 private:
  enum class State : std::uint8_t { waiting, away, over };
  struct Entry {
    Move move;              // as submitted
    Completion completion;  // ours; the engine writes it
    Ticket there{};
    SubmitMode use = SubmitMode::queued;
    State state = State::waiting;
    std::uint8_t engine = 0;
    bool cancelled = false;
    std::size_t group = 1;  // moves in the group; set in its first
  };
  struct Group {
    std::uint64_t first = 0;
    std::size_t count = 0;
    Bytes bytes = 0;
    bool refused = false;  // by every engine
  };

  Ticket take_ticket() noexcept {
    started_ = given() + 1;
    given_.store(started_, std::memory_order_relaxed);  // see given()
    return Ticket{started_};
  }
  [[nodiscard]] Entry& entry(std::uint64_t ticket) noexcept {
    return entries_[(ticket - 1) % entries_.size()];
  }
  [[nodiscard]] bool is_over(const Entry& entry) const noexcept;
  void end(Entry& entry) noexcept;
  bool start_next(Lock& lock) noexcept;
  [[nodiscard]] Group next_group() noexcept;
  [[nodiscard]] std::size_t choose(Group& group) noexcept;
  void run_here(const Group& group) noexcept;
  void end_unbegun(const Group& group, Cause cause) noexcept;
  void hand_over(const Group& group, std::size_t engine, Lock& lock) noexcept;
  void mark_away(const Group& group, std::size_t engine, Ticket last) noexcept;
  [[nodiscard]] Result<Ticket> submit_to(std::size_t engine, std::span<const Move> batch,
                                         SubmitMode mode, Lock& lock);

  PolicyEngine& engine_;
  EngineCounters counters_;
  LaneProgress progress_;
  std::vector<Entry> entries_;
  std::vector<Move> batch_;  // the group in hand, contiguous
  std::atomic<std::uint64_t> given_{0};
  std::uint64_t started_ = 0;
  bool handing_over_ = false;
  std::uint64_t cancels_ = 0;
  Watched* watched_by_ = nullptr;
  std::array<std::unique_ptr<Lane>, kMaxPolicyEngines> lanes_;
  std::array<bool, kMaxPolicyEngines> refused_{};  // most likely stopped
  EngineBytes own_{};
};

}  // namespace gantry
