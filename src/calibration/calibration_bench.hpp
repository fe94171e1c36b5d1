#pragma once  // calibration/calibration_bench.hpp: the buffers, lanes and clock of one calibration.

#include <algorithm>
#include <gantry/memory.hpp>

#include "base/clock.hpp"
#include "calibration/calibration.hpp"

namespace gantry {

/// One calibration in progress. Used by one thread.
class CalibrationBench {
 public:
  [[nodiscard]] static Result<CalibrationBench> make(
      std::span<const std::shared_ptr<Engine>> engines, Bytes bytes);

  struct Subject {
    std::string name;
    std::unique_ptr<Lane> lane;
    bool reshapes = false;  ///< Itself, rather than by the caller's CPU.
  };
  [[nodiscard]] std::vector<Subject>& subjects() noexcept { return subjects_; }
  /// Null if there is no such engine.
  [[nodiscard]] Lane* lane_of(std::string_view engine) noexcept;
  [[nodiscard]] Bytes bytes() const noexcept { return source_.size(); }

  enum class Memory : std::uint8_t {
    same,   ///< Always the first bytes: they are in the cache if they fit.
    other,  ///< Other bytes each time, as payloads are: first-level caches do not help.
  };
  /// A move: a copy of so many bytes, or what a plan makes.
  struct Work {
    Bytes bytes = 0;  ///< Of the destination.
    CacheUse cache = CacheUse::automatic;
    const ReshapePlan* plan = nullptr;  ///< Must outlive it; null: a copy.
    /// Of the larger side.
    [[nodiscard]] Bytes footprint() const noexcept {
      return plan == nullptr ? bytes : std::max(bytes, plan->source_bytes());
    }
  };
  /// Has it done repeatedly if it is small, and awaits each time; returns the nanoseconds of one.
  [[nodiscard]] Result<double> awaited(Lane& lane, const Work& work, WaitStrategy waiting,
                                       Memory memory);
  /// Queues up to 16, of other bytes each time, then awaits them.
  struct Queued {
    double share_ns = 0;
    double caller_ns = 0;
  };
  [[nodiscard]] Result<Queued> queued(Lane& lane, const Work& work);
  /// Copies, then reads what was written; returns the nanoseconds a byte of the reading.
  [[nodiscard]] Result<double> reading(Lane& lane, Bytes bytes, CacheUse cache);

 private:
  CalibrationBench() = default;
  [[nodiscard]] Move move_of(Bytes offset, const Work& work) const noexcept;

  [[nodiscard]] Bytes next_offset(Bytes bytes) noexcept;

  Bytes cursor_ = 0;
  Region source_;
  Region destination_;
  std::vector<Subject> subjects_;
};

[[nodiscard]] double median_of(std::vector<double> values) noexcept;  ///< 0 if there are none.

/// Rounds of a measurement: at least one, until its time is up.
class Rounds {
 public:
  Rounds(std::uint64_t budget_ns, unsigned most) noexcept
      : end_ns_(monotonic_ns() + budget_ns), left_(most) {}
  [[nodiscard]] bool another() noexcept {
    const bool more = !begun_ || (left_ > 0 && monotonic_ns() < end_ns_);
    begun_ = true;
    if (left_ > 0) --left_;
    return more;
  }

 private:
  std::uint64_t end_ns_;
  unsigned left_;
  bool begun_ = false;
};

}  // namespace gantry
