#pragma once  // base/test_lingering.hpp: a descriptor whose close(2) takes longer than any test
              // waits.

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "core/base/os/close_elsewhere.hpp"
#include "core/base/os/fd.hpp"
#include "core/base/test_refusals.hpp"

namespace gantry::test {

/// A TCP connection within this machine, with SO_LINGER and bytes that nobody reads. Closing the
/// last copy of socket() waits until this object ends.
class Lingering {
 public:
  Lingering() {
    const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int small = 1024;
    ::setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener.get(), at, size), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), at, &size), 0);
    socket_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket_.get(), at, size), 0);
    unread_.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const linger long_time{1, 3600};
    EXPECT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &long_time, sizeof long_time), 0);
    const std::array<char, 65536> bytes{};
    while (::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) continue;
  }

  [[nodiscard]] int socket() const { return socket_.get(); }
  /// Drops our copy; close(2) here does not wait while another copy is open.
  void drop_own_copy() { socket_.reset(); }

 private:
  Fd socket_;
  Fd unread_;  // closed first: that ends the lingering
};

/// One end of a pair of Unix sockets in whose queue such a connection lies. Closing the last copy
/// of socket() waits until this object ends.
class Poisoned {
 public:
  explicit Poisoned(int type, int flags = 0) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()), 0);
    mine_.reset(ends[0]);
    given_.reset(ends[1]);
    is_sent_ = send_descriptor(mine_.get(), lingering_.socket(), flags);
    lingering_.drop_own_copy();
  }

  [[nodiscard]] static bool send_descriptor(int socket, int descriptor, int flags = 0) {
    char byte = 0;
    iovec part{&byte, sizeof byte};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
    return ::sendmsg(socket, &header, flags | MSG_NOSIGNAL) == 1;
  }

  [[nodiscard]] bool is_sent() const { return is_sent_; }  ///< The kernel has MSG_OOB.
  [[nodiscard]] int socket() const { return given_.get(); }
  void drop_own_copy() { given_.reset(); }

 private:
  Fd mine_, given_;
  bool is_sent_ = false;
  Lingering lingering_;  // ends first
};

/// Has the last copy of `lingering`'s socket closed elsewhere by a thread that may start none.
/// Returns its number, which stays open; -1 where there are no filters.
inline int close_without_threads(Lingering& lingering) {
  int number = -1;
  std::thread([&] {
    if (!refuse_calls({{SYS_clone3, EAGAIN}, {SYS_clone, EAGAIN}})) return;
    Fd socket(::fcntl(lingering.socket(), F_DUPFD_CLOEXEC, 0));
    lingering.drop_own_copy();
    number = socket.get();
    close_elsewhere({&socket, 1});
  }).join();
  return number;
}

inline bool is_open(int descriptor) {
  return ::fcntl(descriptor, F_GETFD) >= 0;
}

}  // namespace gantry::test
