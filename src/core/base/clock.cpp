#include "core/base/clock.hpp"

#include <fstream>
#include <string>

namespace gantry {

bool tsc_is_clock() noexcept {
  // The kernel has watched the counter since boot; its choice is better than a CPUID bit.
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string source;
  return static_cast<bool>(file >> source) && source == "tsc";
}

[[maybe_unused]] const std::uint64_t kClockAtLoad = read_ticks();  // base/os/fork.cpp

ClockPair ClockPair::now() noexcept {
  constexpr std::uint64_t kTight = 10'000;
  constexpr int kTries = 100;
  ClockPair best;
  std::uint64_t best_gap = ~std::uint64_t{0};
  for (int i = 0; i < kTries && best_gap > kTight; ++i) {
    const std::uint64_t before = monotonic_ns();
    const std::uint64_t ticks = read_ticks();
    const std::uint64_t after = monotonic_ns();
    if (after - before >= best_gap) continue;
    best_gap = after - before;
    best = {ticks, before + best_gap / 2};
  }
  return best;
}

double ns_per_tick(const ClockPair& start) noexcept {
  constexpr std::uint64_t kEnough = 1'000'000;
  ClockPair end = ClockPair::now();
  while (end.ns - start.ns < kEnough) end = ClockPair::now();
  const auto ticks = end.ticks - start.ticks;
  return ticks == 0 ? 1.0 : static_cast<double>(end.ns - start.ns) / static_cast<double>(ticks);
}

}  // namespace gantry
