#pragma once  // tools/gantry/run/process/course.hpp: how a run went, moment by moment.

#include "run/process/plan.hpp"

namespace gantry::run {

/// What the channels of a run had moved at moments that are about equally far apart. However long
/// the run, there are at most kMost of them.
class Course {
 public:
  static constexpr std::size_t kMost = 512;
  static constexpr std::chrono::milliseconds kFirstInterval{100};
  struct Moved {
    std::uint64_t published = 0;  ///< Messages.
    std::uint64_t messages = 0;   ///< Received.
    std::uint64_t bytes = 0;      ///< Received.
  };
  struct Moment {
    std::chrono::nanoseconds at{};  ///< Since the run's start.
    std::vector<Moved> channels;    ///< By their index in the pipeline.
  };

  /// Reads the counters; `at` never falls.
  void add(std::chrono::nanoseconds at, const Plan& plan);
  /// When the next moment is due.
  [[nodiscard]] std::chrono::nanoseconds next() const noexcept;
  [[nodiscard]] const std::vector<Moment>& moments() const noexcept { return moments_; }

 private:
  std::vector<Moment> moments_;
  std::chrono::nanoseconds interval_ = kFirstInterval;
};

}  // namespace gantry::run
