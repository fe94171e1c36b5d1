#include "device/cuda/clock.hpp"

#include <algorithm>

#include "base/result.hpp"

namespace gantry::cuda {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kAnchored = std::chrono::seconds(1);

nanoseconds from_ms(float ms) noexcept {
  return nanoseconds(static_cast<std::int64_t>(static_cast<double>(ms) * 1e6));
}

}  // namespace

Result<Clock> Clock::measure(const ContextPointer& context, StreamHandle stream) {
  constexpr int kTries = 8;
  const Driver& driver = context->driver;
  GANTRY_ASSIGN(OwnedEvent anchor, make_event(context));
  GANTRY_ASSIGN(const OwnedEvent probe, make_event(context));
  Time at = Time::max();
  const auto probe_once = [&](EventHandle event) {
    Status status = driver.event_record(event, stream);
    if (status == kSuccess) status = driver.event_synchronize(event);
    const Time now = Deadline::Clock::now();
    float ms = 0;
    if (status == kSuccess && event != anchor.get())
      status = driver.event_elapsed(&ms, anchor.get(), event);
    at = std::min(at, now - from_ms(ms));
    return status;
  };
  const Status status = context->with([&] {
    Status probed = probe_once(anchor.get());
    for (int i = 1; i < kTries && probed == kSuccess; ++i) probed = probe_once(probe.get());
    return probed;
  });
  if (status == kSuccess) return Clock(std::move(anchor), at);
  return refused(driver, context->core->name, "its clock", status);
}

void Clock::read(const Driver& driver, EventHandle began, OwnedEvent& ended, Time now,
                 DeviceTiming& timing) noexcept {
  float began_ms = 0;
  float ended_ms = 0;
  if (driver.event_elapsed(&began_ms, anchor_.get(), began) != kSuccess ||
      driver.event_elapsed(&ended_ms, anchor_.get(), ended.get()) != kSuccess) {
    timing.ended = now;
    return;
  }
  const nanoseconds late = at_ + from_ms(ended_ms) - now;
  if (late > nanoseconds::zero()) {  // impossible: the anchor is too late
    at_ -= late;
    if (soonest_ != nanoseconds::max()) soonest_ += late;
  }
  const Time ended_at = at_ + from_ms(ended_ms);
  const Time earliest = std::max(timing.submitted, last_);
  timing.ended = std::max(ended_at, earliest);
  timing.began = std::clamp(at_ + from_ms(began_ms), earliest, timing.ended);
  last_ = timing.ended;
  soonest_ = std::min(soonest_, nanoseconds(now - ended_at));
  if (from_ms(ended_ms) < kAnchored) return;
  std::swap(anchor_, ended);
  at_ = ended_at + soonest_;
  soonest_ = nanoseconds::max();
}

}  // namespace gantry::cuda
