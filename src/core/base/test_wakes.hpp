#pragma once  // base/test_wakes.hpp: what a hostile process does with a wake-up socket, or hands
              // over as one.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <string>
#include <vector>

#include "core/base/event.hpp"

namespace gantry::test {

inline void make_blocking(int descriptor) {
  EXPECT_EQ(::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK), 0);
}

/// Afterwards a write waits unless it says that it must not.
inline void fill_and_block(int descriptor) {
  make_blocking(descriptor);
  const std::array<char, 4096> bytes{};
  while (::send(descriptor, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) continue;
  while (::send(descriptor, bytes.data(), 1, MSG_DONTWAIT) > 0) continue;
  EXPECT_EQ(errno, EAGAIN);
}

/// Descriptors that are no wake-up sender: an event, a pipe, a file, connections to a socket with a
/// name and to one with an abstract name, an unconnected socket, one that keeps message borders.
class NoWakes {
 public:
  explicit NoWakes(const std::string& directory) {
    made_.push_back(*make_event());
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC), 0);
    add_both(ends);
    made_.emplace_back(::open("/dev/zero", O_RDWR | O_CLOEXEC | O_NONBLOCK));
    std::string path = directory + "/no-wake-XXXXXX";
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    connect_to_service(path + "/service");
    ::unlink((path + "/service").c_str());
    ::rmdir(path.c_str());
    connect_to_service(std::string(1, '\0') + path);
    made_.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    add_both(ends);
  }
  [[nodiscard]] std::vector<int> descriptors() const {
    std::vector<int> all;
    for (const Fd& one : made_) all.push_back(one.get());
    return all;
  }

 private:
  void add_both(const std::array<int, 2>& ends) {
    for (const int end : ends) made_.emplace_back(end);
  }
  void connect_to_service(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ASSERT_LT(name.size(), sizeof address.sun_path);
    name.copy(address.sun_path, name.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() +
                                             (name.front() == '\0' ? 0 : 1));
    const auto* const at = reinterpret_cast<const sockaddr*>(&address);
    listeners_.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    made_.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(listeners_.back().get(), at, size), 0);
    ASSERT_EQ(::listen(listeners_.back().get(), 1), 0);
    ASSERT_EQ(::connect(made_.back().get(), at, size), 0);
  }
  std::vector<Fd> made_;
  std::vector<Fd> listeners_;
};

}  // namespace gantry::test
