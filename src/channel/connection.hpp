#pragma once  // channel/connection.hpp: what a session's packets go over.

#include "base/fd.hpp"
#include "base/fork.hpp"
#include "base/result.hpp"
#include "base/socket.hpp"
#include "channel/acceptor.hpp"

namespace gantry {

/// A socket of ours; over a line, two. Whoever has a copy of the end at which another hears can sit
/// in a recv(2) whose destination never comes, and the kernel lets no other recv(2) past, whatever
/// its flags: not even SIGKILL ends who waits there. What connect() and accept() return nobody else
/// has. Of a line each side makes one pair, hears at its own end and hands the other one over.
class Connection {
 public:
  Connection() noexcept = default;
  explicit Connection(Fd socket) noexcept : ears_(std::move(socket)) {}
  Connection(Connection&&) noexcept = default;
  Connection& operator=(Connection&& other) noexcept {
    std::swap(ears_, other.ears_);
    std::swap(mouth_, other.mouth_);
    std::swap(watch_, other.watch_);
    std::swap(maker_, other.maker_);
    return *this;
  }
  ~Connection() { reset(); }

  /// An acceptor's, of ears(): it ends before they are closed.
  void watch_with(AcceptWatch watch) noexcept { watch_ = std::move(watch); }

  /// Of a line; see adopt_line().
  void speak_through(ReceivedFd mouth) noexcept { mouth_ = mouth.take(); }
  [[nodiscard]] bool is_line() const noexcept { return static_cast<bool>(mouth_); }

  [[nodiscard]] int ears() const noexcept { return ears_.get(); }
  /// Also the one that knows who the peer is: it made what belongs to it.
  [[nodiscard]] int mouth() const noexcept { return is_line() ? mouth_.get() : ears_.get(); }

  void hang_up() const noexcept;  ///< Both sides see that it is over.
  /// The other side sees that nothing more comes; what it says, and its end, is still heard.
  void stop_sending() const noexcept;
  /// Never waits, whatever the peer has sent. In a fork's copy the parent's goes on.
  void reset() noexcept;

 private:
  Fd ears_;
  Fd mouth_;  // deaf: see adopt_line()
  AcceptWatch watch_;
  MakerProcess maker_;
};

/// One direction of a line.
struct LinePair {
  Fd ours;    // to hear at
  Fd theirs;  // to be handed over, and closed here
};
[[nodiscard]] Result<LinePair> make_line();
/// Hands `theirs` over.
[[nodiscard]] Result<void> say_line(int mouth, int theirs);
/// What `whom` sent for us to speak through. Error: `peer_misbehaved` when that is no socket of
/// messages, or not one that `whom` made: nobody is to have us write to a third process.
[[nodiscard]] Result<ReceivedFd> adopt_line(ReceivedFd given, const PeerIdentity& whom);

}  // namespace gantry
