#pragma once  // base/event.hpp: an eventfd: wakes a sleeper that polls several descriptors.

#include <poll.h>
#include <sys/eventfd.h>

#include "core/base/os/fd.hpp"
#include "core/base/result.hpp"

namespace gantry {

// For threads of one process. Another process that has an eventfd can make it block, fill it, or
// take what others have rung. So it is handed to nobody; between processes use base/wake.hpp.

[[nodiscard]] inline Result<Fd> make_event() {
  Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return fail_errno("eventfd");
  return event;
}

/// True if poll(2) now reports `direction` for the descriptor.
inline bool would_pass(int descriptor, short direction) noexcept {
  pollfd entry{descriptor, direction, 0};
  return ::poll(&entry, 1, 0) == 1 && (entry.revents & direction) != 0;
}

/// Neither function waits. A full counter is readable, so nothing is lost.
inline void ring(int event) noexcept {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(event, &one, sizeof one));
}
inline void drain(int event) noexcept {
  std::uint64_t count = 0;
  static_cast<void>(!::read(event, &count, sizeof count));
}

}  // namespace gantry
