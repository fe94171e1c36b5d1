#pragma once  // schedule/run/run_trace.hpp: what a rank's run of a plan writes into its trace.

#include "schedule/run/ended_steps.hpp"
#include "schedule/run/rank_script.hpp"
#include "trace/end_trace.hpp"

namespace gantry {

/// The operations of one run, at one rank. While nobody records, each call is one load and one
/// branch. In the thread of the run.
class RunTrace {
 public:
  using Time = Deadline::Clock::time_point;

  /// All must outlive it.
  RunTrace(const Plan& plan, trace::EndTrace& into) noexcept : plan_(plan), into_(into) {}

  /// A barrier begins when the others are told, and ends when all have told.
  void handed_over(std::uint32_t step) {
    if (trace::is_on()) [[unlikely]]
      slow_handed_over(step);
  }
  /// `times`: when it was computed; null: it ends now, and began when it was handed over.
  void ended(std::uint32_t step, const EndedStep* times = nullptr) {
    if (trace::is_on()) [[unlikely]]
      slow_ended(step, times);
  }
  /// A step of another rank's has reached this one.
  void arrived(std::uint32_t step) {
    if (trace::is_on()) [[unlikely]]
      slow_arrived(step);
  }
  /// A wait ends with the beginning of the turn in which something moved.
  void turn_begins() noexcept {
    if (trace::is_on() && idle_since_) [[unlikely]]
      turn_began_ = Deadline::Clock::now();
  }
  /// A turn is over. `awaited`: returns the step that is waited for; nothing: other ranks.
  template <class Awaited>
  void turned(bool has_moved, Awaited awaited) {
    if (!trace::is_on()) [[likely]]
      return;
    if (!has_moved && !idle_since_) begin_wait(awaited());
    if (has_moved && idle_since_) end_wait();
  }

 private:
  void slow_handed_over(std::uint32_t step);
  void slow_ended(std::uint32_t step, const EndedStep* times);
  void slow_arrived(std::uint32_t step);
  void begin_wait(std::optional<std::uint32_t> step);
  void end_wait();
  void write(trace::EventKind kind, std::uint32_t step, Time begin, Time end);

  const Plan& plan_;
  trace::EndTrace& into_;
  std::vector<std::optional<Time>> handed_at_;  // by step; empty until somebody records
  std::optional<Time> idle_since_;
  Time turn_began_{};
  std::optional<std::uint32_t> awaited_;
};

}  // namespace gantry
