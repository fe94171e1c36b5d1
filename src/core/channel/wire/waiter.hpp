#pragma once  // channel/wire/waiter.hpp: how an end of a channel waits: it polls for a while, then
              // sleeps.

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <span>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/handed_over.hpp"
#include "core/base/os/cpu.hpp"
#include "core/base/os/socket.hpp"
#include "core/channel/wire/step.hpp"
#include "core/sync/wait_flag.hpp"

namespace gantry {

/// What one waiting end sleeps on. `revents` of the descriptors are for the caller.
struct WaitPoint {
  std::span<WaitFlag* const> flags;  ///< Announced to each peer before sleeping.
  std::vector<pollfd> descriptors;   ///< Events, deaths, hang-ups. Negative ones are skipped.
  int interrupt = -1;
};

enum class Woken { ready, timed_out, interrupted, look };

/// Bounds the looks that one wait takes after its deadline: a peer that shows it something again
/// and again, and then nothing, cannot keep it.
class LateLooks {
 public:
  static constexpr unsigned kMost = 64;  // several, since more than one end has descriptors
  static constexpr unsigned kLeast = 2;
  static constexpr std::uint64_t kMostTimeNs = 20'000'000;  // a look can take in many packets
  /// True once they are used up. Ask before each look.
  [[nodiscard]] bool are_spent(Deadline deadline) noexcept {
    if (!deadline.passed()) return false;
    const std::uint64_t now = monotonic_ns();
    if (taken_++ == 0) first_ns_ = now;
    return taken_ > kMost || (taken_ > kLeast && now - first_ns_ > kMostTimeNs);
  }

 private:
  unsigned taken_ = 0;
  std::uint64_t first_ns_ = 0;
};

/// Polls `ready` for some microseconds: worth it before anything is prepared for a longer wait.
template <class Ready>
[[nodiscard]] bool poll_briefly(Ready ready) {
  constexpr int kTurns = 64;
  for (int turn = 0; turn < kTurns; ++turn) {
    if (ready()) return true;
    cpu_relax();
  }
  return false;
}

/// Polls `ready` for up to `spin`; reads the clock only where that costs little in comparison. What
/// this thread has handed over goes first where it needs this CPU.
template <class Ready>
[[nodiscard]] bool poll_for(std::chrono::nanoseconds spin, Deadline deadline, Ready ready) {
  if (spin.count() <= 0) return ready();
  const auto turns = [&ready](int count) {
    const bool gives_way = has_handed_over();
    for (int turn = 0; turn < count; ++turn) {
      if (ready()) return true;
      gives_way ? static_cast<void>(::sched_yield()) : cpu_relax();
    }
    return false;
  };
  const std::uint64_t until = monotonic_ns() + static_cast<std::uint64_t>(spin.count());
  do {
    if (turns(32)) return true;
  } while (monotonic_ns() < until && !deadline.passed());
  return false;
}

/// How long to poll before sleeping, by the latest waits. Polling pays while events come within the
/// user's spin time; after a wait that outlasted it, it was in vain, and the next one polls half as
/// long. A short wait restores the whole time. But where threads outnumber CPUs, polling itself may
/// hold up what it waits for, and waits are short because nobody polls: if the first whole time is
/// in vain again, twice as many short waits must come before the next one.
class SpinTime {
 public:
  explicit SpinTime(std::chrono::nanoseconds most = {}) noexcept : most_(most), now_(most) {}
  SpinTime& operator=(std::chrono::nanoseconds most) noexcept {
    most_ = most;
    restore();
    needed_ = 1;
    is_trial_ = false;
    return *this;
  }
  [[nodiscard]] std::chrono::nanoseconds now() const noexcept {
    return now_.load(std::memory_order_relaxed);  // read for display; one thread changes it
  }
  void took(std::chrono::nanoseconds wait) noexcept {
    const auto least = most_ / kLeastShare;
    if (wait < now()) {  // polling paid
      needed_ = 1;
      is_trial_ = false;
      restore();
    } else if (wait < most_) {
      is_trial_ = ++short_ >= needed_;
      is_trial_ ? restore() : poll_for_at_most(least);
    } else if (std::exchange(is_trial_, false)) {
      needed_ = std::min(2 * needed_, kMostNeeded);
      poll_for_at_most(least);
    } else {
      poll_for_at_most(std::max(now() / 2, least));
    }
  }

  /// The time from here to the end of the block is one wait.
  class Wait {
   public:
    explicit Wait(SpinTime& spin) noexcept : spin_(spin) {}
    ~Wait() { spin_.took(std::chrono::nanoseconds(monotonic_ns() - began_ns_)); }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    SpinTime& spin_;
    std::uint64_t began_ns_ = monotonic_ns();
  };

 private:
  static constexpr int kLeastShare = 64;
  static constexpr unsigned kMostNeeded = 64;

  void poll_for_at_most(std::chrono::nanoseconds time) noexcept {
    now_.store(time, std::memory_order_relaxed);  // read for display
  }
  void restore() noexcept {
    short_ = 0;
    poll_for_at_most(most_);
  }

  std::chrono::nanoseconds most_;
  std::atomic<std::chrono::nanoseconds> now_;
  unsigned short_ = 0;     // waits since the whole time was restored that ended within it, asleep
  unsigned needed_ = 1;    // of them, before it is restored
  bool is_trial_ = false;  // it was restored by them, and has not paid yet
};

/// Looks once, without waiting.
[[nodiscard]] inline Woken look_at(WaitPoint& point) {
  point.descriptors.push_back({point.interrupt, POLLIN, 0});
  const int count = ::poll(point.descriptors.data(), point.descriptors.size(), 0);
  const bool interrupted = point.descriptors.back().revents != 0;
  point.descriptors.pop_back();
  if (count > 0 && interrupted) return Woken::interrupted;
  return count > 0 ? Woken::look : Woken::timed_out;
}

/// Polls `ready` for `spin`, then calls `fall_asleep` and sleeps once. `look`: something happened
/// to a descriptor (see revents) and `ready` was not yet true; the caller looks and calls again.
template <class Ready, class FallAsleep = void (*)()>
[[nodiscard]] Woken wait_once(
    WaitPoint& point, std::chrono::nanoseconds spin, Deadline deadline, Ready ready,
    FallAsleep fall_asleep = [] {}) {
  if (poll_for(spin, deadline, ready)) return Woken::ready;
  if (ready()) return Woken::ready;
  // Without time to sleep a death or a hang-up must be seen, too.
  if (deadline.passed()) return look_at(point);
  for (WaitFlag* flag : point.flags) flag->announce();
  GANTRY_STEP(sleep_announced);
  const bool came_meanwhile = ready();
  int count = 0;
  if (!came_meanwhile) {
    fall_asleep();
    point.descriptors.push_back({point.interrupt, POLLIN, 0});
    count = ::poll(point.descriptors.data(), point.descriptors.size(), poll_timeout_ms(deadline));
  }
  for (WaitFlag* flag : point.flags) flag->withdraw();
  GANTRY_STEP(sleep_ended);
  if (came_meanwhile) return Woken::ready;
  const bool interrupted = count > 0 && point.descriptors.back().revents != 0;
  point.descriptors.pop_back();
  if (interrupted) return Woken::interrupted;
  return count == 0 ? Woken::timed_out : Woken::look;
}

}  // namespace gantry
