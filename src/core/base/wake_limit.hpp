#pragma once  // base/wake_limit.hpp: when whoever rings for nothing is not listened to for a while.

#include <algorithm>
#include <cstdint>

namespace gantry {

/// What a sleeper remembers of one ringer. An honest one rings once a sleep at most, and because it
/// did something that may be waited for. Each ring is noted; it was idle when nothing had been done
/// since the one before.
///   I1  Who has not rung kMostIdle times more for nothing than for something is listened to.
///   I2  A mute is over at most kLongestNs after the ring that began it, and the ringer is then
///   listened to
///       until it rings for nothing once more. So whoever sleeps no longer than until over_ns()
///       misses no ring: one that was muted by mistake is late.
///   I3  Each mute is twice as long as the one before, up to kLongestNs.
///   I4  Who makes up for what it rang for nothing, or did not ring for kForgetsNs, is as new.
class WakeLimit {
 public:
  static constexpr unsigned kMostIdle = 32;  // two threads of a ringer may both ring for one sleep
  static constexpr std::uint64_t kShortestNs = 1'000'000;
  static constexpr std::uint64_t kLongestNs = 32'000'000;
  static constexpr std::uint64_t kForgetsNs = 250'000'000;
  static_assert(kForgetsNs > kLongestNs, "who rings through its mutes is not forgiven");

  /// It has rung. Times are of one clock that does not go back.
  void note(bool for_something, std::uint64_t now_ns) noexcept {
    if (now_ns - last_ns_ >= kForgetsNs) idle_ = mute_ns_ = 0;  // I4
    last_ns_ = now_ns;
    if (for_something) {
      if (idle_ != 0) --idle_;
      if (idle_ == 0) mute_ns_ = 0;  // I4
      return;
    }
    if (++idle_ < kMostIdle) return;  // I1
    idle_ = kMostIdle;
    mute_ns_ = std::clamp(2 * mute_ns_, kShortestNs, kLongestNs);  // I3
    over_ns_ = now_ns + mute_ns_;                                  // I2
  }
  [[nodiscard]] bool is_muted(std::uint64_t now_ns) const noexcept { return now_ns < over_ns_; }
  /// When the newest mute is over.
  [[nodiscard]] std::uint64_t over_ns() const noexcept { return over_ns_; }

 private:
  std::uint64_t idle_ = 0;
  std::uint64_t mute_ns_ = 0;
  std::uint64_t over_ns_ = 0;
  std::uint64_t last_ns_ = 0;
};

}  // namespace gantry
