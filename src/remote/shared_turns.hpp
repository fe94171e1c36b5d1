#pragma once  // remote/shared_turns.hpp: the turns of a side, by its own thread or its user's.

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "channel/wire/waiter.hpp"
#include "remote/session.hpp"

namespace gantry {

/// Takes a side's turns until its work over a link has ended. A thread of its own does so in run().
/// While a user's thread waits for a message, or has just sent one, it takes them itself, so that
/// no other thread needs to be woken: run() rests then.
///   I1  Only who holds mutex_ uses side_ and *link_. Both are null outside of run().
///   I2  run() takes no turn while is_driven_.
///   I3  Nobody else takes one after end_ is set; run() was rung then.
///   I4  run() sleeps on all that the side waits for, or for kRest at most; longer only while
///       is_driven_, and then whoever ends that rings.
///   I5  Who drives has looked for a message under the lock, behind the last turn of run().
class SharedTurns {
 public:
  /// `stop`: ends run() when it is readable. `ring`: an event of this object's alone; without one
  /// no user's thread takes turns. `spin`: the longest time that receive() polls.
  explicit SharedTurns(int stop, Fd ring = {}, std::chrono::nanoseconds spin = {}) noexcept
      : stop_(stop), ring_(std::move(ring)), spin_(spin) {}

  /// The thread of the side.
  [[nodiscard]] RemoteEnd run(RemoteSide& side, std::shared_ptr<Link> link, std::uint64_t received);

  /// A thread that waits for what the side receives; one at a time. `is_there` says whether it has
  /// come already: run() may have received it just before. True: something was received. False: it
  /// is to be waited for as any other channel's message.
  [[nodiscard]] bool receive(Deadline deadline, int interrupt,
                             const std::function<bool()>& is_there) noexcept;
  /// A thread that has given the side something to send. `is_small`: it costs little to send.
  void has_sent(bool is_small) noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Turn = RemoteSide::Turn;

  [[nodiscard]] Result<void> work(Lock& lock);
  /// True: it is to stop.
  [[nodiscard]] bool sleep(Lock& lock);
  void rest(Lock& lock);
  [[nodiscard]] bool drive(Lock& lock, Deadline deadline, int interrupt);
  /// A turn in a user's thread. Nothing: that was the last one.
  [[nodiscard]] std::optional<Turn> take_turn() noexcept;
  void check_invariants() const noexcept;

  const int stop_;
  const Fd ring_;
  SpinTime spin_;                     // of the thread that receives
  std::atomic<bool> is_sent_{false};  // [S]: there may be something to send
  std::atomic<bool> rests_{false};    // [S]: run() does not sleep on what the side waits for

  std::mutex mutex_;  // guards what follows
  RemoteSide* side_ = nullptr;
  std::shared_ptr<Link> link_;
  std::optional<Result<void>> end_;  // of the work, found by a user's thread
  bool is_driven_ = false;           // a thread is in receive()
  bool is_at_link_ = false;          // run() sleeps on the link
  bool is_to_ring_ = false;          // run() sleeps until it is rung
  std::uint64_t drives_ = 0;         // turns that were taken for run(), or began to be
  std::uint64_t seen_drives_ = 0;    // by run()
};

}  // namespace gantry
