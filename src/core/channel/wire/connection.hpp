#pragma once  // channel/wire/connection.hpp: the sockets of a session's packets.

#include "core/base/os/fd.hpp"
#include "core/base/os/fork.hpp"
#include "core/base/os/socket.hpp"
#include "core/base/result.hpp"
#include "core/channel/wire/acceptor.hpp"

namespace gantry {

/// A socket of ours; a control connection has two. A process that has a copy of the end at which
/// another hears can sit in a recv(2) whose destination never comes. The kernel then lets no other
/// recv(2) past, whatever its flags, and not even SIGKILL ends a thread that waits there. Nobody
/// else has what connect() and accept() return. For a control connection each side makes one pair,
/// hears at its own end and hands the other one over.
class Connection {
 public:
  Connection() noexcept = default;
  explicit Connection(Fd socket) noexcept : receive_fd_(std::move(socket)) {}
  Connection(Connection&&) noexcept = default;
  Connection& operator=(Connection&& other) noexcept {
    std::swap(receive_fd_, other.receive_fd_);
    std::swap(send_fd_, other.send_fd_);
    std::swap(watch_, other.watch_);
    std::swap(fork_guard_, other.fork_guard_);
    return *this;
  }
  ~Connection() { reset(); }

  /// The acceptor's watch of receive_fd(); it ends before the sockets are closed.
  void watch_with(AcceptWatch watch) noexcept { watch_ = std::move(watch); }

  /// Sets the sending end of a control connection; see adopt_control_end().
  void send_through(ReceivedFd send_fd) noexcept { send_fd_ = send_fd.take(); }
  [[nodiscard]] bool is_pair() const noexcept { return static_cast<bool>(send_fd_); }

  [[nodiscard]] int receive_fd() const noexcept { return receive_fd_.get(); }
  /// It also knows who the peer is, since the peer made it.
  [[nodiscard]] int send_fd() const noexcept {
    return is_pair() ? send_fd_.get() : receive_fd_.get();
  }

  /// Gives up its socket; not of a control connection.
  [[nodiscard]] Fd take() noexcept {
    watch_.end();
    return std::move(receive_fd_);
  }
  void hang_up() const noexcept;  ///< Both sides see that the session is over.
  /// The other side sees that nothing more comes; its packets and its end are still heard.
  void stop_sending() const noexcept;
  /// Never waits, whatever the peer has sent. In a fork's copy the parent's connection goes on.
  void reset() noexcept;

 private:
  Fd receive_fd_;
  Fd send_fd_;  // deaf: see adopt_control_end()
  AcceptWatch watch_;
  ForkGuard fork_guard_;
};

/// One direction of a control connection.
struct ControlPair {
  Fd ours;    // to hear at
  Fd theirs;  // to be handed over, then closed here
};
[[nodiscard]] Result<ControlPair> make_control_pair();
/// Hands `theirs` over.
[[nodiscard]] Result<void> send_control_end(int send_fd, int theirs);
/// Adopts the socket that `whom` sent for us to speak through. Errors: `peer_misbehaved` when it is
/// no socket of messages, or not one that `whom` made: nobody may have us write to a third process.
[[nodiscard]] Result<ReceivedFd> adopt_control_end(ReceivedFd given, const PeerIdentity& whom);

}  // namespace gantry
