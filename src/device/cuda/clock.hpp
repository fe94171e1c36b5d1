#pragma once  // device/cuda/clock.hpp: when things happened on the device, on the host's clock.

#include "device/cuda/context.hpp"

namespace gantry::cuda {

// The driver tells only how long after one event another came, as a float of milliseconds, which
// is exact to nanoseconds for a second and to no more than microseconds for a minute. So times are
// counted from an anchor whose host time is known, and the anchor is moved on. What the host's
// clock and the device's drift apart meanwhile is seen from the operations: none can have ended
// after the host heard of it, which mends an anchor that is too late at once; and of those since
// the last anchor the one of which it heard soonest tells how much too early this one is.

/// Of one queue. After measure() used by one thread, with the context current.
class Clock {
 public:
  /// Errors: the driver's.
  [[nodiscard]] static Result<Clock> measure(const ContextPointer& context, StreamHandle stream);

  /// Sets timing's `began` and `ended`, of which the host heard at `now`. May take `ended` and
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
