#pragma once  // base/event.hpp: an eventfd: wakes a sleeper that polls several descriptors.

#include <sys/eventfd.h>

#include "base/fd.hpp"
#include "base/result.hpp"

namespace gantry {

[[nodiscard]] inline Result<Fd> make_event() {
  Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return fail_errno("eventfd");
  return event;
}

/// A full counter (only a hostile peer fills it) is readable anyway: nothing is lost.
inline void ring(int event) noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event, &one, sizeof one);
}

inline void drain(int event) noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(event, &count, sizeof count);
}

}  // namespace gantry
