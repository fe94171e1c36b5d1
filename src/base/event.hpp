#pragma once  // base/event.hpp: an eventfd: wakes a sleeper that polls several descriptors.

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

#include <array>
#include <string>

#include "base/fd.hpp"
#include "base/result.hpp"

namespace gantry {

[[nodiscard]] inline Result<Fd> make_event() {
  Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return fail_errno("eventfd");
  return event;
}

/// A descriptor from another process: an eventfd that does not block? A pipe could raise SIGPIPE.
[[nodiscard]] inline Result<void> check_event(int event) {
  std::array<char, 64> kind{};
  const std::string link = fmt::format("/proc/self/fd/{}", event);
  const ssize_t length = ::readlink(link.c_str(), kind.data(), kind.size());
  const std::string_view name(kind.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  const int flags = ::fcntl(event, F_GETFL);
  if (name != "anon_inode:[eventfd]" || flags < 0 || (flags & O_NONBLOCK) == 0)
    return fail(Code::peer_misbehaved, "the other process sent something else for its event");
  return {};
}

// The peer shares the event and may make it block at any time; so neither of these does what would
// then wait. A full counter (only a hostile peer fills it) is readable anyway: nothing is lost.
inline bool would_pass(int event, short direction) noexcept {
  pollfd entry{event, direction, 0};
  return ::poll(&entry, 1, 0) == 1 && (entry.revents & direction) != 0;
}

inline void ring(int event) noexcept {
  const std::uint64_t one = 1;
  if (would_pass(event, POLLOUT)) static_cast<void>(!::write(event, &one, sizeof one));
}

// Between a look and a read the peer could empty it; the kernel can be told for one read not to
// wait (for an eventfd since Linux 5.8).
inline void drain(int event) noexcept {
  std::uint64_t count = 0;
  iovec into{&count, sizeof count};
  if (::preadv2(event, &into, 1, -1, RWF_NOWAIT) >= 0 || errno == EAGAIN) return;
  if (would_pass(event, POLLIN)) static_cast<void>(!::read(event, &count, sizeof count));
}

}  // namespace gantry
