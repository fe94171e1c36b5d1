#pragma once  // base/wake.hpp: a wake-up socket between two processes: one sleeps on it, the other
              // rings it.

#include "core/base/os/close_elsewhere.hpp"
#include "core/base/os/fork.hpp"
#include "core/base/result.hpp"

namespace gantry {

// A connected pair of stream sockets. The sleeper makes it, keeps one end and hands the other over,
// so a pair carries rings one way. However hostile the other process is:
//   I1  ring() does not wait. The sleeper may hold a copy of the sender, make it block and fill it;
//       but each call itself says that it must not wait. A full socket is readable: nothing is
//       lost.
//   I2  drain() does not wait, since nobody else has the receiving end. A process that had it could
//       sit inside a recv(2) whose destination is never paged in, and the kernel lets no other
//       recv(2) past, not even one that must not wait. Hence one pair does not serve both ways.
//   I3  Only the sleeper can take a ring away.
// docs/decisions/eventfd-not-futex.md

/// The end that the other process rings. Any thread.
class WakeSender {
 public:
  WakeSender() noexcept = default;
  /// Adopts an end from another process. Errors: `peer_misbehaved` when it is no connected stream
  /// socket of AF_UNIX whose other end has no name: nobody may have us write to a service.
  [[nodiscard]] static Result<WakeSender> adopt(ReceivedFd given);

  void ring() const noexcept;  ///< Never waits. [D] of sync/wait_flag.hpp says when.
  [[nodiscard]] int descriptor() const noexcept { return end_.get(); }
  void reset() noexcept { end_.reset(); }

 private:
  friend class WakeReceiver;
  explicit WakeSender(Fd end) noexcept : end_(std::move(end)) {}
  Fd end_;
};

/// The end that its owner sleeps on: descriptor() is readable when the socket was rung, or can be
/// rung no more. A fork's copy can only be destroyed, which closes it and changes no epoll.
class WakeReceiver {
 public:
  struct Made;
  [[nodiscard]] static Result<Made> make();

  WakeReceiver() noexcept = default;
  WakeReceiver(WakeReceiver&& other) noexcept;
  WakeReceiver& operator=(WakeReceiver&& other) noexcept;
  ~WakeReceiver() { reset(); }

  [[nodiscard]] int descriptor() const noexcept { return end_.get(); }  ///< -1: none.
  /// Takes in the rings; never waits. False: the other end is gone. Then the descriptor is always
  /// readable, and must not be polled any more.
  [[nodiscard]] bool drain() const noexcept { return drain(end_.get()); }
  [[nodiscard]] static bool drain(int descriptor) noexcept;

  /// True if somebody, in any process, has a copy of the other end.
  [[nodiscard]] bool has_other_end() const noexcept;

  /// Adds it to `epoll`, which must live until reset(). Call it once.
  [[nodiscard]] Result<void> hang_in(int epoll, std::uint32_t events);
  /// Changes what the epoll waits for.
  void wait_for(std::uint32_t events) noexcept;
  /// Removes it from its epoll first: a description that a forked copy keeps alive would stay
  /// there.
  void reset() noexcept;

 private:
  explicit WakeReceiver(Fd end) noexcept : end_(std::move(end)) {}
  Fd end_;
  int epoll_ = -1;
  ForkGuard fork_guard_;
};

/// Hand `wake_sender` over, then reset it: drain() reports when the last copy has been closed.
struct WakeReceiver::Made {
  WakeReceiver wake_receiver;
  WakeSender wake_sender;
};

}  // namespace gantry
