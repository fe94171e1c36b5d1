#include "core/base/wake.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>

#include "core/base/os/socket.hpp"

namespace gantry {
namespace {

// A name is in the file system or abstract; what socketpair() makes has neither.
bool is_of_somebody_unnamed(int socket) {
  sockaddr_un peer{};
  socklen_t size = sizeof peer;
  return ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
         size <= offsetof(sockaddr_un, sun_path);
}

}  // namespace

// Nothing is ever read from a sender. So it is made deaf: nothing can be queued in it that takes
// time to close.
Result<WakeSender> WakeSender::adopt(ReceivedFd given) {
  if (is_unix_socket(given.get(), SOCK_STREAM) && is_of_somebody_unnamed(given.get()) &&
      !ends_with_packets(given.get()))
    return WakeSender(given.take());
  return fail(Code::peer_misbehaved,
              "the other process sent something else for its wake-up sender");
}

void WakeSender::ring() const noexcept {
  const char ring = 0;
  // Past the library: send() is a point of cancellation, which costs more than the way there.
  static_cast<void>(::syscall(SYS_sendto, end_.get(), &ring, sizeof ring,
                              MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0));  // I1
}

Result<WakeReceiver::Made> WakeReceiver::make() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    return fail_errno("socketpair");
  Made made{WakeReceiver(Fd(ends[0])), WakeSender(Fd(ends[1]))};
  // Descriptors that are sent along would be closed inside drain(), and closing one can take long
  // (SO_LINGER).
  accept_rights(made.wake_receiver.descriptor(), false);
  return made;
}

WakeReceiver::WakeReceiver(WakeReceiver&& other) noexcept
    : end_(std::move(other.end_)),
      epoll_(std::exchange(other.epoll_, -1)),
      fork_guard_(other.fork_guard_) {}

WakeReceiver& WakeReceiver::operator=(WakeReceiver&& other) noexcept {
  if (this == &other) return *this;
  reset();
  end_ = std::move(other.end_);
  epoll_ = std::exchange(other.epoll_, -1);
  fork_guard_ = other.fork_guard_;
  return *this;
}

bool WakeReceiver::drain(int descriptor) noexcept {
  std::array<char, 256> rings;  // NOLINT: filled by the kernel
  const ssize_t count = ::recv(descriptor, rings.data(), rings.size(), MSG_DONTWAIT);
  return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
}

bool WakeReceiver::has_other_end() const noexcept {
  pollfd entry{end_.get(), 0, 0};
  return end_ && ::poll(&entry, 1, 0) >= 0 && (entry.revents & POLLHUP) == 0;
}

Result<void> WakeReceiver::hang_in(int epoll, std::uint32_t events) {
  epoll_event interest{};
  interest.events = events;
  interest.data.fd = end_.get();
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, end_.get(), &interest) != 0) return fail_errno("epoll_ctl");
  epoll_ = epoll;
  return {};
}

void WakeReceiver::wait_for(std::uint32_t events) noexcept {
  if (epoll_ < 0 || !fork_guard_.is_this()) return;
  epoll_event interest{};
  interest.events = events;
  interest.data.fd = end_.get();
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, end_.get(), &interest);
}

void WakeReceiver::reset() noexcept {
  if (epoll_ >= 0 && fork_guard_.is_this()) ::epoll_ctl(epoll_, EPOLL_CTL_DEL, end_.get(), nullptr);
  epoll_ = -1;
  end_.reset();
}

}  // namespace gantry
