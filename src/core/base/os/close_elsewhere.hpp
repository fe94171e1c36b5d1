#pragma once  // base/os/close_elsewhere.hpp: closes what a stranger sent, without waiting for it.

#include <span>
#include <utility>
#include <vector>

#include "core/base/os/fd.hpp"

namespace gantry {

// close(2) can sleep for as long as a stranger likes: for a TCP socket with SO_LINGER and unsent
// data, a file of a FUSE server, and a Unix socket in whose queue such descriptors lie.

/// Closes descriptors that may take time on threads made for that, 16 at most; the others stay open
/// until a thread is free. Memory of up to 64 MiB is closed by the caller.
void close_elsewhere(std::span<Fd> fds) noexcept;

/// Tries again to start a thread if descriptors wait because none could be started. False: they
/// still wait for one. close_elsewhere() and close_socket() try, too.
bool close_what_waits() noexcept;

/// Ends the receiving direction of a Unix socket. True: packets or bytes lie in its queue, and no
/// more will come.
[[nodiscard]] bool ends_with_packets(int socket) noexcept;

/// Closes a Unix socket: here if nothing lies in its queue, else elsewhere. Every copy of it is
/// deaf from then on.
void close_socket(Fd socket) noexcept;

/// A descriptor that another process sent. It is closed elsewhere unless somebody takes it.
class ReceivedFd {
 public:
  ReceivedFd() noexcept = default;
  ReceivedFd(Fd fd) noexcept : fd_(std::move(fd)) {}  // NOLINT: implicit from any received one
  ReceivedFd(ReceivedFd&&) noexcept = default;
  ReceivedFd& operator=(ReceivedFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~ReceivedFd() {
    if (fd_) close_elsewhere({&fd_, 1});
  }

  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  /// Call it once it is known that closing takes no time.
  [[nodiscard]] Fd take() noexcept { return std::move(fd_); }

 private:
  Fd fd_;
};

/// The descriptors of one packet; see ReceivedFd.
class ReceivedFds {
 public:
  ReceivedFds() noexcept = default;
  ReceivedFds(ReceivedFds&&) noexcept = default;
  ReceivedFds& operator=(ReceivedFds&& other) noexcept {
    std::swap(fds_, other.fds_);
    return *this;
  }
  ~ReceivedFds() {
    if (!fds_.empty()) close_elsewhere(fds_);
  }

  void add(int descriptor) { fds_.emplace_back(descriptor); }
  [[nodiscard]] std::size_t size() const noexcept { return fds_.size(); }
  [[nodiscard]] bool empty() const noexcept { return fds_.empty(); }
  [[nodiscard]] Fd& operator[](std::size_t index) noexcept { return fds_[index]; }
  [[nodiscard]] const Fd& operator[](std::size_t index) const noexcept { return fds_[index]; }
  [[nodiscard]] auto begin() const noexcept { return fds_.begin(); }
  [[nodiscard]] auto end() const noexcept { return fds_.end(); }

 private:
  std::vector<Fd> fds_;
};

}  // namespace gantry
