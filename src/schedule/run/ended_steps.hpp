#pragma once  // schedule/run/ended_steps.hpp: steps that have ended, on their way to who waits.

#include <gantry/types.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/fd.hpp"

namespace gantry {

struct EndedStep {
  using Time = Deadline::Clock::time_point;
  std::uint32_t item = 0;
  std::optional<Error> error = {};
  Time began = {};
  Time ended = {};
};

/// From the threads on which steps end to the one that serves the links.
///   I1  There is room for all that is expected: that something has ended is always told.
class EndedSteps {
 public:
  /// Errors: `system`.
  [[nodiscard]] static Result<std::unique_ptr<EndedSteps>> make();

  /// One more will be told.
  void expect();
  void tell(EndedStep ended) noexcept;
  /// Moves what has ended since the last call to the end of `ended`.
  void take(std::vector<EndedStep>& ended);
  /// Once nobody tells anything any more.
  void forget() noexcept;
  /// Readable when something has ended.
  [[nodiscard]] int descriptor() const noexcept { return event_.get(); }

 private:
  explicit EndedSteps(Fd event) : event_(std::move(event)) {}

  const Fd event_;
  std::mutex mutex_;  // guards what follows
  std::vector<EndedStep> ended_;
  std::size_t expected_ = 0;
};

}  // namespace gantry
