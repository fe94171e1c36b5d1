#include "core/engine/lane_progress.hpp"

#include <algorithm>

#include "core/base/event.hpp"

namespace gantry {
void LaneProgress::retire(Outcome outcome) noexcept {
  // Relaxed: only the retiring thread writes it, and the engine's lock orders those.
  const std::uint64_t ticket = ended_.load(std::memory_order_relaxed) + 1;
  if (outcome == Outcome::failed) remember_failure(ticket);
  // I1 and I3: release for the Completion [E], seq_cst against the sleepers [S].
  ended_.store(ticket, std::memory_order_seq_cst);
}

void LaneProgress::announce() noexcept {
  word_.fetch_add(1, std::memory_order_seq_cst);                                          // I2 [W]
  if (sleepers_.load(std::memory_order_seq_cst) != 0) futex_wake(word_);                  // I3 [S]
  if (const int event = event_.load(std::memory_order_seq_cst); event >= 0) ring(event);  // [S]
}

Outcome LaneProgress::outcome(Ticket ticket) const noexcept {
  if (!has_ended(ticket)) return Outcome::pending;
  // Relaxed: a failure is counted before its ticket ends, which has_ended() has seen [E].
  if (failures_.load(std::memory_order_relaxed) == 0) return Outcome::done;
  return is_remembered(static_cast<std::uint64_t>(ticket)) ? Outcome::failed : Outcome::done;
}

void LaneProgress::sleep(Ticket ticket, std::uint64_t until_ns) noexcept {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);                                // I3 [S]
  const std::uint32_t word = word_.load(std::memory_order_seq_cst);                 // I2 [W]
  if (ended_.load(std::memory_order_seq_cst) < static_cast<std::uint64_t>(ticket))  // [S]
    futex_wait(word_, word, until_ns);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);  // one wake too many harms nobody
}

// Moves that ended before the first call also ring it: a loop that begins with the descriptor
// misses nothing.
Result<int> LaneProgress::event_descriptor() {
  const std::lock_guard lock(mutex_);
  if (!event_owner_) {
    GANTRY_ASSIGN(event_owner_, make_event());
    event_.store(event_owner_.get(), std::memory_order_seq_cst);  // [S]
    if (ended_.load(std::memory_order_seq_cst) > 0) ring(event_owner_.get());
  }
  return event_owner_.get();
}

void LaneProgress::remember_failure(std::uint64_t ticket) noexcept {
  const std::uint64_t before = failures_.load(std::memory_order_relaxed);  // we alone write it
  failed_[before % kRememberedFailures].store(ticket, std::memory_order_relaxed);  // [E] orders it
  failures_.store(before + 1, std::memory_order_relaxed);                          // [E] orders it
}

bool LaneProgress::is_remembered(std::uint64_t ticket) const noexcept {
  return std::any_of(failed_.begin(), failed_.end(), [ticket](const auto& failed) {
    return failed.load(std::memory_order_relaxed) == ticket;  // as above
  });
}

}  // namespace gantry
