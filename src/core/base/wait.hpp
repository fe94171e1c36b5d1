#pragma once  // base/wait.hpp: waits for several descriptors, here or in an epoll.

#include <poll.h>
#include <sys/epoll.h>

#include <array>
#include <initializer_list>

#include "core/base/assert.hpp"
#include "core/base/os/fd.hpp"
#include "core/base/os/socket.hpp"
#include "core/base/result.hpp"

namespace gantry {

[[nodiscard]] inline bool is_readable(int descriptor) noexcept {
  pollfd entry{descriptor, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

/// Sleeps until one of the descriptors (-1: none) is readable or has ended, until a signal comes,
/// or for at most `most`. Returns which are, a bit for each in their order.
inline unsigned sleep_on(std::initializer_list<int> descriptors,
                         std::chrono::nanoseconds most) noexcept {
  std::array<pollfd, 4> entries{};
  GANTRY_ASSERT(descriptors.size() <= entries.size());
  std::size_t count = 0;
  for (const int descriptor : descriptors) entries[count++] = {descriptor, POLLIN, 0};
  if (::poll(entries.data(), count, poll_timeout_ms(Deadline::after(most))) <= 0) return 0;
  unsigned readable = 0;
  for (std::size_t i = 0; i < count; ++i) readable |= entries[i].revents != 0 ? 1u << i : 0u;
  return readable;
}

/// From here on the epoll says `key` while the descriptor is readable.
[[nodiscard]] inline Result<void> watch_in(int epoll, int descriptor, epoll_data key) {
  epoll_event interest{EPOLLIN, key};
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &interest) == 0) return {};
  return fail_errno("epoll_ctl");
}

/// An epoll of the descriptors (-1: none), each of which is its own key.
[[nodiscard]] inline Result<Fd> make_epoll(std::initializer_list<int> descriptors = {}) {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_errno("epoll_create1");
  for (const int descriptor : descriptors)
    if (descriptor >= 0) GANTRY_TRY(watch_in(epoll.get(), descriptor, {.fd = descriptor}));
  return epoll;
}

}  // namespace gantry
