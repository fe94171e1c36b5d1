#pragma once  // base/clock.hpp: the cheapest clocks that still agree between processes.

#include <cstdint>
#include <ctime>

namespace gantry {

[[nodiscard]] inline std::uint64_t clock_ns(clockid_t clock) noexcept {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}
[[nodiscard]] inline std::uint64_t monotonic_ns() noexcept {
  return clock_ns(CLOCK_MONOTONIC);
}
[[nodiscard]] inline std::uint64_t thread_cpu_ns() noexcept {
  return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/// True if the kernel trusts the time-stamp counter of this machine: one rate, the same on every
/// CPU.
[[nodiscard]] bool tsc_is_clock() noexcept;

/// Raw time. 5 to 10 ns by the time-stamp counter, about 25 ns by the kernel's clock.
[[nodiscard]] inline std::uint64_t read_ticks() noexcept {
#if defined(__x86_64__)
  if (static const bool tsc = tsc_is_clock(); tsc) return __builtin_ia32_rdtsc();
#endif
  return monotonic_ns();
}

/// One moment on both clocks; two of them give the rate of ticks without a calibration pause.
struct ClockPair {
  std::uint64_t ticks = 0;
  std::uint64_t ns = 0;
  /// Reads again when this thread was stopped between the two readings. They lie within
  /// microseconds, except on a machine that never lets it run.
  [[nodiscard]] static ClockPair now() noexcept;
};

/// Nanoseconds a tick, from `start` until now; waits until at least 1 ms lies between.
[[nodiscard]] double ns_per_tick(const ClockPair& start) noexcept;

}  // namespace gantry
