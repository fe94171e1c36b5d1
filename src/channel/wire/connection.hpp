#pragma once  // channel/wire/connection.hpp: what a session's packets go over.

#include "base/fd.hpp"
#include "base/fork.hpp"
#include "base/result.hpp"
#include "base/socket.hpp"
#include "channel/wire/acceptor.hpp"

namespace gantry {

/// A socket of ours; over a control connection, two. Whoever has a copy of the end at which another
/// hears can sit in a recv(2) whose destination never comes, and the kernel lets no other recv(2)
/// past, whatever its flags: not even SIGKILL ends who waits there. What connect() and accept()
/// return nobody else has. Of a control connection each side makes one pair, hears at its own end
/// and hands the other one over.
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

  /// An acceptor's, of receive_fd(): it ends before they are closed.
  void watch_with(AcceptWatch watch) noexcept { watch_ = std::move(watch); }

  /// Of a control connection; see adopt_control_end().
  void send_through(ReceivedFd send_fd) noexcept { send_fd_ = send_fd.take(); }
  [[nodiscard]] bool is_pair() const noexcept { return static_cast<bool>(send_fd_); }

  [[nodiscard]] int receive_fd() const noexcept { return receive_fd_.get(); }
  /// Also the one that knows who the peer is: it made what belongs to it.
  [[nodiscard]] int send_fd() const noexcept {
    return is_pair() ? send_fd_.get() : receive_fd_.get();
  }

  void hang_up() const noexcept;  ///< Both sides see that it is over.
  /// The other side sees that nothing more comes; what it says, and its end, is still heard.
  void stop_sending() const noexcept;
  /// Never waits, whatever the peer has sent. In a fork's copy the parent's goes on.
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
  Fd theirs;  // to be handed over, and closed here
};
[[nodiscard]] Result<ControlPair> make_control_pair();
/// Hands `theirs` over.
[[nodiscard]] Result<void> send_control_end(int send_fd, int theirs);
/// What `whom` sent for us to speak through. Error: `peer_misbehaved` when that is no socket of
/// messages, or not one that `whom` made: nobody is to have us write to a third process.
[[nodiscard]] Result<ReceivedFd> adopt_control_end(ReceivedFd given, const PeerIdentity& whom);

}  // namespace gantry
