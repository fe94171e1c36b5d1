#pragma once  // base/wake.hpp: a wake-up socket between two processes: one sleeps on it, the other
              // rings it.

#include "base/close_elsewhere.hpp"
#include "base/fork.hpp"
#include "base/result.hpp"

namespace gantry {

// A connected pair of stream sockets. Who sleeps makes it, keeps one end to itself and hands the
// other one over, so a pair carries rings one way. However hostile the other process is:
//   I1  ring() does not wait. The sleeper may hold a copy of the pull, make it block and fill it;
//       but each call says itself that it is not to wait. What is full is readable: nothing is
//       lost.
//   I2  drain() does not wait. Nobody else has the receiving end. Who has it can sit inside a
//   recv(2)
//       whose destination is never paged in, and the kernel lets no other recv(2) past, not even
//       one that is not to wait; hence not one pair for both ways.
//   I3  Only who sleeps can take a ring away.
// docs/decisions/eventfd-not-futex.md

/// What the other process pulls. Any thread.
class WakeSender {
 public:
  WakeSender() noexcept = default;
  /// What came from another process. Error: `peer_misbehaved` when it is no connected stream
  /// socket of AF_UNIX whose other end has no name: nobody is to have us write to a service.
  [[nodiscard]] static Result<WakeSender> adopt(ReceivedFd given);

  void ring() const noexcept;  ///< Never waits. [D] of sync/wait_flag.hpp says when.
  [[nodiscard]] int descriptor() const noexcept { return end_.get(); }
  void reset() noexcept { end_.reset(); }

 private:
  friend class WakeReceiver;
  explicit WakeSender(Fd end) noexcept : end_(std::move(end)) {}
  Fd end_;
};

/// What its owner sleeps on: descriptor() is readable when the wake-up socket was rung, or can be
/// rung no more. A fork's copy of it is for being destroyed: that closes, and changes no epoll.
class WakeReceiver {
 public:
  struct Made;
  [[nodiscard]] static Result<Made> make();

  WakeReceiver() noexcept = default;
  WakeReceiver(WakeReceiver&& other) noexcept;
  WakeReceiver& operator=(WakeReceiver&& other) noexcept;
  ~WakeReceiver() { reset(); }

  [[nodiscard]] int descriptor() const noexcept { return end_.get(); }  ///< -1: none.
  /// Takes in what was rung; never waits. False: the other end is gone, the descriptor is readable
  /// from now on, and must not be polled any more.
  [[nodiscard]] bool drain() const noexcept { return drain(end_.get()); }
  [[nodiscard]] static bool drain(int descriptor) noexcept;

  /// Somebody, in whatever process, has a copy of the other end.
  [[nodiscard]] bool has_other_end() const noexcept;

  /// It has its place in `epoll`, which must live as long, until reset(). Once.
  [[nodiscard]] Result<void> hang_in(int epoll, std::uint32_t events);
  /// Of what hangs: changes what is waited for.
  void wait_for(std::uint32_t events) noexcept;
  /// Takes it out of its epoll first: a description that a forked copy keeps alive would stay in.
  void reset() noexcept;

 private:
  explicit WakeReceiver(Fd end) noexcept : end_(std::move(end)) {}
  Fd end_;
  int epoll_ = -1;
  ForkGuard fork_guard_;
};

/// `pull` is to be handed over and then reset: the end of the last copy is what drain() tells of.
struct WakeReceiver::Made {
  WakeReceiver wake_receiver;
  WakeSender wake_sender;
};

}  // namespace gantry
