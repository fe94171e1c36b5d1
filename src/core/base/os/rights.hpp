#pragma once  // base/os/rights.hpp: descriptors that travel in messages of Unix sockets.

#include <sys/socket.h>

#include <array>
#include <cstring>
#include <span>

#include "core/base/os/close_elsewhere.hpp"

namespace gantry {

/// The most that Linux lets one message carry (SCM_MAX_FD). The kernel would close descriptors
/// without room here within recvmsg(2), for as long as that takes.
inline constexpr std::size_t kMostFds = 253;
using ControlBuffer = std::array<char, CMSG_SPACE(sizeof(int) * kMostFds)>;

/// Adds descriptors to a message, at most kMostFds; `control` must live until it was sent.
inline void add_fds(msghdr& header, ControlBuffer& control, std::span<const int> fds) noexcept {
  header.msg_control = fds.empty() ? nullptr : control.data();
  header.msg_controllen = fds.empty() ? 0 : CMSG_SPACE(fds.size_bytes());
  if (cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr) {
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
}

/// Owns all received descriptors at once, so that no early return can leak one.
inline ReceivedFds take_fds(msghdr& header) {
  ReceivedFds fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      fds.add(descriptor);
    }
  }
  return fds;
}

}  // namespace gantry
