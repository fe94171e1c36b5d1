#include "core/engine/lane_base.hpp"

#include <algorithm>

#include "core/base/clock.hpp"
#include "core/base/os/cpu.hpp"
#include "core/base/result.hpp"

namespace gantry {
namespace {

// a shorter one would mostly be its own system call
constexpr std::uint64_t kLeastSleepNs = 30'000;
constexpr std::uint64_t kPatienceNs = 200'000;  // of polling beyond the prediction, before a sleep
constexpr std::uint64_t kMostLatenessNs = 1'000'000;
constexpr std::uint32_t kLeastCaution = 20;
constexpr std::uint32_t kMostCaution = 500;
constexpr int kBurst = 32;  // looks between two readings of the clock: a few microseconds

std::uint64_t end_of(Deadline deadline, std::uint64_t now_ns) noexcept {
  if (deadline.is_never()) return kForever;
  return now_ns + static_cast<std::uint64_t>(deadline.left().count());
}

}  // namespace

struct Waiter::Turn {
  WaitTarget& target;
  Ticket ticket;
  std::uint64_t started_ns = monotonic_ns();
  std::uint64_t until_ns = kForever;
  std::uint64_t polling_since_ns = 0;  // 0: not polling

  [[nodiscard]] bool has_ended() const noexcept { return target.awaited().has_ended(ticket); }

  // A few microseconds at the most.
  void poll_burst() const noexcept {
    for (int i = 0; i < kBurst && !has_ended(); ++i) {
      if (!target.ends_unpolled()) target.poll_once();
      cpu_relax();
    }
  }
};

Outcome Waiter::wait(WaitTarget& target, Ticket ticket, Deadline deadline,
                     WaitStrategy waiting) noexcept {
  Turn turn{target, ticket};
  turn.until_ns = end_of(deadline, turn.started_ns);
  if (waiting == WaitStrategy::hybrid)
    turn.poll_burst();  // small moves end before any question is asked
  while (!turn.has_ended()) {
    if (turn.until_ns != kForever && monotonic_ns() >= turn.until_ns) return Outcome::pending;
    if (waiting == WaitStrategy::automatic && target.help(ticket)) continue;
    if (waiting == WaitStrategy::sleep)
      target.awaited().sleep(ticket, turn.until_ns);
    else if (waiting == WaitStrategy::poll || !sleep_some(turn))
      turn.poll_burst();
  }
  return target.awaited().outcome(ticket);
}

std::chrono::nanoseconds Waiter::sleepable(std::chrono::nanoseconds predicted) const noexcept {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(predicted.count(), 0));
  return std::chrono::nanoseconds(static_cast<std::int64_t>(sleepable_ns(ns)));
}

// The part of a predicted time to sleep: without the part that predictions are wrong by, and the
// time by which timers are late.
std::uint64_t Waiter::sleepable_ns(std::uint64_t left_ns) const noexcept {
  const std::uint64_t trusted =
      left_ns - left_ns / 1000 * caution_.load(std::memory_order_relaxed);  // a guess, as told
  const std::uint64_t lateness = lateness_ns_.load(std::memory_order_relaxed);
  return trusted > lateness + kLeastSleepNs ? trusted - lateness : 0;
}

// 0: poll. A move that should have ended is polled for a while and then slept for again: the
// prediction was wrong, and polling has a bound, too.
std::uint64_t Waiter::plan_sleep(Turn& turn, std::uint64_t now_ns) const noexcept {
  const auto blind = static_cast<std::uint64_t>(kBlindSleep.count());
  const std::uint64_t waited = now_ns - turn.started_ns;
  const bool polling = turn.polling_since_ns != 0;
  if (polling && now_ns - turn.polling_since_ns < std::max(kPatienceNs, waited / 4)) return 0;
  // Not asked while polling: the answer costs a lock that the thread ending the move needs.
  std::uint64_t plan =
      sleepable_ns(static_cast<std::uint64_t>(turn.target.left(turn.ticket).count()));
  if (plan == 0 && !polling) {
    turn.polling_since_ns = now_ns;
    return 0;
  }
  if (plan == 0) plan = blind;
  turn.polling_since_ns = 0;
  return turn.target.ends_unpolled() ? plan : std::min(plan, std::max(blind, waited / 4));
}

// False: it is time to poll.
bool Waiter::sleep_some(Turn& turn) noexcept {
  const std::uint64_t now = monotonic_ns();
  const std::uint64_t plan = plan_sleep(turn, now);
  if (plan == 0) return false;
  const std::uint64_t until = std::min(turn.until_ns, now + plan);
  turn.target.awaited().sleep(turn.ticket, until);
  const std::uint64_t woke = monotonic_ns();
  if (!turn.target.ends_unpolled()) turn.target.poll_once();
  learn(woke > until ? woke - until : 0, turn.has_ended());
  return true;
}

// A sleep in which the move ended was too long, and the next ones trust the prediction less. A
// sleep that the end cut short says nothing about timers.
void Waiter::learn(std::uint64_t lateness_ns, bool ended) noexcept {
  const std::uint32_t caution = caution_.load(std::memory_order_relaxed);
  caution_.store(ended ? std::min(kMostCaution, caution + caution / 2 + 10)
                       : std::max(kLeastCaution, caution - caution / 32 - 1),
                 std::memory_order_relaxed);
  if (lateness_ns == 0) return;
  const std::uint64_t old = lateness_ns_.load(std::memory_order_relaxed);
  const std::uint64_t seen = std::min(lateness_ns, kMostLatenessNs);
  // Quick to become careful, slow to become bold.
  lateness_ns_.store(seen > old ? (old + seen) / 2 : old - (old - seen) / 8,
                     std::memory_order_relaxed);
}

// ---- the lane ------------------------------------------------------------------------------

Outcome LaneBase::wait(Ticket ticket, Deadline deadline, WaitStrategy waiting) {
  if (progress_.has_ended(ticket)) return progress_.outcome(ticket);
  if (static_cast<std::uint64_t>(ticket) > given()) return Outcome::failed;
  // A sleeper that nobody would wake looks up now and then instead.
  if (waiting == WaitStrategy::sleep && !be_watched()) waiting = WaitStrategy::hybrid;
  return waiter_.wait(*this, ticket, deadline, waiting);
}

Result<int> LaneBase::event_descriptor() {
  GANTRY_TRY(be_watched());
  return progress_.event_descriptor();
}

}  // namespace gantry
