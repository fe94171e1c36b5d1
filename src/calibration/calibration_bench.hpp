#pragma once  // calibration/calibration_bench.hpp: the buffers, lanes and clock of one calibration.

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
  };
  [[nodiscard]] std::vector<Subject>& subjects() noexcept { return subjects_; }
  /// Null if there is no such engine.
  [[nodiscard]] Lane* lane_of(std::string_view engine) noexcept;
  [[nodiscard]] Bytes bytes() const noexcept { return source_.size(); }

  enum class Memory : std::uint8_t {
    same,   ///< Always the first bytes: they are in the cache if they fit.
    other,  ///< Other bytes each time, as payloads are: first-level caches do not help.
  };
  /// Copies `bytes`, repeatedly if they are few, and awaits each; returns the nanoseconds of one.
  [[nodiscard]] Result<double> awaited(Lane& lane, Bytes bytes, CacheUse cache,
                                       WaitStrategy waiting, Memory memory);
  /// Queues up to 16 copies, of other bytes each time, then awaits them.
  struct Queued {
    double share_ns = 0;
    double caller_ns = 0;
  };
  [[nodiscard]] Result<Queued> queued(Lane& lane, Bytes bytes, CacheUse cache);
  /// Copies, then reads what was written; returns the nanoseconds a byte of the reading.
  [[nodiscard]] Result<double> reading(Lane& lane, Bytes bytes, CacheUse cache);

 private:
  CalibrationBench() = default;
  [[nodiscard]] Move copy_of(Bytes offset, Bytes bytes, CacheUse cache) const noexcept;

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
