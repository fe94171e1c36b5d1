#pragma once  // dsa/dispatcher.hpp: the link between the lanes and one work queue.

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "core/base/os/fork.hpp"
#include "device/dsa/dsa_engine.hpp"
#include "device/dsa/flights.hpp"
#include "device/dsa/pending_moves.hpp"

namespace gantry::dsa {

/// Cuts the lanes' moves into parts, hands them to the device in turn, and sees each to its end.
/// Everything happens in pump(), called by whoever polls, or by the helper thread. There is one
/// lock; slow work (a part done by the CPU, pages made present, closing the queue) is done without
/// it.
///   I1  A part is in one place: ready again, at the device, a chore, or in the hands of a thread.
///   I2  A move ends when none of its parts is anywhere. So nobody uses its memory afterwards: not
///   the
///       device, which answered or was closed, and not we.
class Dispatcher {
 public:
  Dispatcher(std::unique_ptr<WorkQueue> queue, const DsaOptions& options);
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  /// False in a child that inherited it by fork(). There only this and queue() may be called.
  [[nodiscard]] bool is_ours() const noexcept { return fork_guard_.is_this(); }
  [[nodiscard]] const WorkQueue& queue() const noexcept { return *queue_; }

  /// Adds a lane's moves, until remove().
  void add(PendingMoves& moves);
  void remove(PendingMoves& moves) noexcept;

  /// `give(count)` is called with the lock held. Nothing: there is no room.
  template <class Give>
  std::optional<Ticket> submit(PendingMoves& moves, std::span<const Move> batch, SubmitMode mode,
                               Give give) {
    const std::lock_guard lock(mutex_);
    if (moves.room() < batch.size()) return {};
    const Ticket last = give(batch.size());
    take(moves, batch, mode);
    return last;
  }

  /// Does what there is to do, but at most one part of it by the CPU. False: there is nothing.
  bool pump() noexcept;
  void cancel(PendingMoves& moves) noexcept;
  Result<void> watch();

  [[nodiscard]] std::chrono::nanoseconds left(const PendingMoves& moves,
                                              std::uint64_t ticket) const noexcept;
  [[nodiscard]] Cost cost() const noexcept;
  [[nodiscard]] CacheUse cache_for(const Move& move) const noexcept;
  [[nodiscard]] Bytes load() const noexcept;
  [[nodiscard]] EngineReport report() const noexcept;
  [[nodiscard]] DsaCounts counts() const;
  [[nodiscard]] bool refuses(Move::Kind kind) const noexcept;

 private:
  struct Chore {
    Part* part = nullptr;
    enum class Kind : std::uint8_t { populate, cpu } kind = Kind::cpu;
    // Results.
    bool populated = false;
    Bytes done = 0;
    Cause cause = Cause::none;
    std::uintptr_t fault_address = 0;
    std::uint64_t helper_cpu_ns = 0;
  };
  enum class Route : std::uint8_t { drop, device, populate, cpu };

  void take(PendingMoves& moves, std::span<const Move> batch, SubmitMode mode);

  // With the lock held.
  void step() noexcept;
  void land() noexcept;
  void settle(const Flights::Landed& landed) noexcept;
  void hand_out() noexcept;
  Part* next_ready() noexcept;
  [[nodiscard]] Route route(const Part& part) const noexcept;
  void submit_ready(std::span<Part* const> ready) noexcept;
  void not_accepted(std::span<Part* const> rest, int error) noexcept;
  void finish(Part& part) noexcept;
  void drop(Part& part, Cause cause, std::uintptr_t address) noexcept;
  void conclude(const Chore& chore) noexcept;
  void learn(const Flights::Landed& landed, Bytes bytes, bool alone) noexcept;
  void look_at_time(std::unique_lock<std::mutex>& lock) noexcept;
  void halt(std::unique_lock<std::mutex>& lock, std::string why) noexcept;
  void kick() noexcept;
  Result<void> start_helper();
  [[nodiscard]] std::chrono::nanoseconds nap() const noexcept;

  void perform(Chore& chore) const noexcept;  // without it
  bool pump_locked(std::unique_lock<std::mutex>& lock) noexcept;
  void help() noexcept;

  const ForkGuard fork_guard_;
  const DsaOptions options_;
  Cut cut_;
  std::unique_ptr<WorkQueue> queue_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;  // the helper
  Flights flights_;
  std::vector<PendingMoves*> lanes_;
  std::size_t turn_ = 0;  // index of the next lane
  std::vector<Part> parts_;
  std::vector<Part*> free_parts_;
  std::deque<Part*> again_;
  std::deque<Chore> chores_;
  std::vector<Flights::Landed> landed_;
  std::vector<Part*> ready_;
  EngineReport report_;
  DsaCounts counts_;
  std::size_t unfinished_ = 0;
  Bytes load_ = 0;
  double start_ns_;
  double bytes_per_ns_;
  std::uint64_t full_since_ns_ = 0;  // 0: it is not full
  std::uint64_t landed_ns_ = 0;      // when something last landed, or was begun
  std::uint64_t looked_ns_ = 0;      // when the records were last read
  // number of parts that are still populated before they are tried
  std::uint32_t suspicion_ = 0;
  std::uint32_t refused_kinds_ = 0;  // bits, by Move::Kind
  // the entrance's error; if not empty, the device is to be halted
  std::string broken_;
  bool changed_ = false;  // a move may have ended
  bool halting_ = false;
  bool failed_ = false;
  bool watched_ = false;
  bool wanted_ = false;  // the helper is needed
  bool helper_idle_ = false;
  bool ending_ = false;
  std::thread helper_;  // last: it uses all of the above
};

}  // namespace gantry::dsa
