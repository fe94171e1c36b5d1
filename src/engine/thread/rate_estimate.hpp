#pragma once  // engine/thread/rate_estimate.hpp: how quick the workers have lately been.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <gantry/types.hpp>

#include "engine/execute.hpp"

namespace gantry {

/// Written under the engine's lock, read by any thread. Relaxed: each figure stands by itself.
class RateEstimate {
 public:
  /// Learns from one worker's unit. Short units are ignored, since they tell more of the clock than
  /// of the memory. `shared`: a waiter helped meanwhile, which a sleeping waiter cannot count on.
  void learn_unit(Bytes bytes, std::uint64_t ns, bool shared) noexcept {
    if (bytes < kTelling || ns == 0 || (shared && seen_alone_)) return;
    seen_alone_ = seen_alone_ || !shared;
    const double old = rate();
    // A worker that lost its CPU in the middle says little about memory.
    const double seen = std::clamp(static_cast<double>(bytes) / static_cast<double>(ns),
                                   old / kMostChange, old * kMostChange);
    rate_.store(old + (seen - old) / kMemory, std::memory_order_relaxed);
  }
  /// Learns the time from submit() to an idle engine until a worker began.
  void learn_start(std::uint64_t ns) noexcept {
    const std::uint64_t old = start_ns(), seen = std::min(ns, old * 4);
    start_ns_.store(seen > old ? old + (seen - old) / 8 : old - (old - seen) / 8,
                    std::memory_order_relaxed);
  }

  [[nodiscard]] double rate() const noexcept { return rate_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t start_ns() const noexcept {
    return start_ns_.load(std::memory_order_relaxed);
  }
  /// Bytes that are done before a worker would be awake: not worth waking anybody for.
  [[nodiscard]] Bytes wake_up_bytes() const noexcept {
    return static_cast<Bytes>(rate() * static_cast<double>(start_ns()));
  }
  /// The largest unit for which another lane waits no longer than kUnitNs.
  [[nodiscard]] Bytes unit_bytes() const noexcept {
    const auto bytes = static_cast<Bytes>(rate() * kUnitNs);
    return std::clamp(bytes / kLeastUnit * kLeastUnit, kLeastUnit, kUnitBytes);
  }

  static constexpr Bytes kLeastUnit = Bytes{64} << 10;

 private:
  static constexpr double kUnitNs = 80'000;
  static constexpr double kMostChange = 4;
  static constexpr double kMemory = 8;  // samples
  static constexpr Bytes kTelling = Bytes{32} << 10;

  std::atomic<double> rate_{8};  // bytes a nanosecond, of one worker
  std::atomic<std::uint64_t> start_ns_{10'000};
  bool seen_alone_ = false;
};

}  // namespace gantry
