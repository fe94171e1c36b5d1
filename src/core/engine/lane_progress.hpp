#pragma once  // engine/lane_progress.hpp: how far a lane has come, and who sleeps until it comes
              // further.

#include <array>
#include <gantry/engine.hpp>
#include <mutex>

#include "core/base/futex.hpp"
#include "core/base/os/fd.hpp"

namespace gantry {

// One thread at a time retires (the engine's lock sees to that); any number of threads look, sleep
// and are woken.
//   I1  `ended_` only grows; every ticket up to it has ended, its Completion written. [E]
//   I2  The word changes after `ended_`, so the change wakes whoever saw an old word and sleeps on
//       it. [W]
//   I3  A sleeper counts itself before it looks; retire() looks at the count after the change. One
//       of the two sees the other (all four are seq_cst). [S]
//   I4  Nobody sleeps for a move that retire_at_once() ends: its ticket is not given yet, and all
//       before it have ended. Those that event_descriptor() lets sleep come, and are counted,
//       under the engine's lock, under which it is called.
class LaneProgress {
 public:
  LaneProgress() = default;
  LaneProgress(const LaneProgress&) = delete;
  LaneProgress& operator=(const LaneProgress&) = delete;

  /// The next move in order has ended. Call announce() then, once for any number of moves.
  void retire(Outcome outcome) noexcept;
  void announce() noexcept;
  /// Both, for a move that ends before its ticket is given, while no other is on its way (I4).
  void retire_at_once(Outcome outcome) noexcept {
    // Relaxed: only the retiring thread writes them, and the engine's lock orders those.
    const std::uint64_t ticket = ended_.load(std::memory_order_relaxed) + 1;
    if (outcome == Outcome::failed) [[unlikely]]
      remember_failure(ticket);
    ended_.store(ticket, std::memory_order_release);  // I1 [E]
    if (sleepers_.load(std::memory_order_relaxed) != 0 ||
        event_.load(std::memory_order_relaxed) >= 0) [[unlikely]]
      return announce();
    word_.store(word_.load(std::memory_order_relaxed) + 1, std::memory_order_release);  // I2 [W]
  }

  [[nodiscard]] std::uint64_t ended() const noexcept {
    return ended_.load(std::memory_order_acquire);  // [E]
  }
  [[nodiscard]] bool has_ended(Ticket ticket) const noexcept {
    return static_cast<std::uint64_t>(ticket) <= ended();
  }
  /// True if it ended, and no move of the lane ever failed: most often all there is to know.
  [[nodiscard]] bool is_done(Ticket ticket) const noexcept {
    // Relaxed: a failure is remembered before its ticket ends [E].
    return has_ended(ticket) && failures_.load(std::memory_order_relaxed) == 0;
  }
  /// `pending` also for a ticket that was never given.
  [[nodiscard]] Outcome outcome(Ticket ticket) const noexcept;

  /// Sleeps until the ticket has ended, the monotonic clock shows `until_ns`, or for no reason.
  void sleep(Ticket ticket, std::uint64_t until_ns) noexcept;

  [[nodiscard]] Result<int> event_descriptor();

  static constexpr std::size_t kRememberedFailures = 1024;

 private:
  void remember_failure(std::uint64_t ticket) noexcept;
  [[nodiscard]] bool is_remembered(std::uint64_t ticket) const noexcept;

  std::atomic<std::uint64_t> ended_{0};
  std::atomic<std::uint32_t> word_{0};
  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<int> event_{-1};  // of event_owner_
  std::atomic<std::uint64_t> failures_{0};
  // A ring of atomics; a fork could copy a lock while it is held.
  std::array<std::atomic<std::uint64_t>, kRememberedFailures> failed_{};
  std::mutex mutex_;  // guards event_owner_
  Fd event_owner_;
};

}  // namespace gantry
