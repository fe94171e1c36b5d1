#pragma once  // device/cuda/clock.hpp: translates the device's times to the host's clock.

#include "device/cuda/context.hpp"

namespace gantry::cuda {

// The driver tells only how long after one event another came, as a float of milliseconds, which is
// exact to nanoseconds for a second and only to microseconds for a minute. So times are counted
// from an anchor whose host time is known, and the anchor is moved on. The operations show how the
// two clocks drift apart. None can have ended after the host heard of it, so an anchor that is too
// late is mended at once; and the operation since the last anchor of which the host heard soonest
// tells how much too early this anchor is.

/// The clock of one queue. After measure() one thread uses it, with the context current.
class Clock {
 public:
  /// Errors: the driver's.
  [[nodiscard]] static Result<Clock> measure(const ContextPointer& context, StreamHandle stream);

  /// Sets `began` and `ended` of `timing`, of which the host heard at `now`. May take `ended` and
  /// leave another event in its place.
  void read(const Driver& driver, EventHandle began, OwnedEvent& ended, DeviceTiming::Time now,
            DeviceTiming& timing) noexcept;

 private:
  using Time = DeviceTiming::Time;
  Clock(OwnedEvent anchor, Time at) noexcept : anchor_(std::move(anchor)), at_(at) {}

  OwnedEvent anchor_;
  Time at_;
  std::chrono::nanoseconds soonest_ = std::chrono::nanoseconds::max();
  Time last_{};  // end of the operation before
};

}  // namespace gantry::cuda
