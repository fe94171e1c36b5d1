#pragma once  // channel/wire/meter.hpp: the writing side of a channel end's counters.

#include <gantry/channel.hpp>

namespace gantry {

/// Counts into one Metrics page. Used by one thread at a time. Readers in other processes see each
/// counter whole, but not all of one instant. Every call takes a few nanoseconds.
class Meter {
 public:
  /// Raw time, comparable across the processes of this machine; only differences have a meaning.
  [[nodiscard]] static std::uint64_t ticks() noexcept;

  void opened() noexcept;
  void connected() noexcept;
  /// For the ends of stages. The first of the two stays.
  void ended() noexcept;
  void broken() noexcept;
  /// The end is given up; nothing after either of those.
  void left() noexcept;
  void message(Bytes bytes) noexcept;
  /// Counts a copy of payload by `engine`. `ticks`: its duration if it happened before hand-off in
  /// user space, 0 if the hand-off contains it.
  void copy(CopyEngine engine, Bytes bytes, std::uint64_t ticks) noexcept;
  /// `weight`: how many messages this one stands for, if only some are timed.
  void handoff(std::uint64_t ticks, std::uint64_t weight = 1) noexcept;
  void cpu(std::uint64_t ns) noexcept;

  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

 private:
  Meter() = default;  // lives only in a page: see Metrics
};

/// Charges the CPU time of its scope to a meter. Asking for the time is two system calls: below
/// kAlwaysBytes only every kOften-th call is measured, below kOftenBytes, where they cost more than
/// such a call, every kEvery-th; it is counted that many times.
class CpuCharge {
 public:
  static constexpr Bytes kAlwaysBytes = 1 << 20;
  static constexpr Bytes kOftenBytes = 64 << 10;
  static constexpr unsigned kOften = 16;
  static constexpr unsigned kEvery = 256;

  /// `calls` is the caller's count of calls so far, which picks the sampled ones.
  CpuCharge(Meter& meter, Bytes bytes, std::uint64_t calls) noexcept {
    if (is_due(bytes, calls)) start(meter, every(bytes));
  }
  /// True if such a call is sampled.
  [[nodiscard]] static bool is_due(Bytes bytes, std::uint64_t calls) noexcept {
    return calls % every(bytes) == 0;
  }
  ~CpuCharge() {
    if (meter_ != nullptr) stop();
  }
  CpuCharge(const CpuCharge&) = delete;
  CpuCharge& operator=(const CpuCharge&) = delete;

 private:
  [[nodiscard]] static unsigned every(Bytes bytes) noexcept {
    return bytes >= kAlwaysBytes ? 1 : bytes >= kOftenBytes ? kOften : kEvery;
  }
  void start(Meter& meter, unsigned weight) noexcept;
  void stop() noexcept;
  Meter* meter_ = nullptr;  // null: not sampled
  std::uint64_t started_ns_ = 0;
  unsigned weight_ = 1;
};

}  // namespace gantry
