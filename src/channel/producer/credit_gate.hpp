#pragma once  // channel/producer/credit_gate.hpp: how a producer waits for its consumers.

#include <atomic>
#include <functional>

#include "base/clock.hpp"
#include "channel/producer/producer_core.hpp"

namespace gantry {

// [F] A consumer that takes a small message marks how far it has come, then looks whether the ring
// is full or the stream ended, both without a fence: only then does it look at who sleeps. Its mark
// may still be on its way when it does not see the newest publication; a producer that then sleeps
// would never be woken for it. So the first sleep after a publication is short, and whoever sleeps
// without limit has looked once more: by then the mark has come.

/// Who wants to send comes through here: it waits for a credit and is given a slot. Every wait of a
/// producer for its consumers is one of this gate's. All under the producer's lock, which a sleep
/// gives up.
class CreditGate {
 public:
  using Lock = ProducerCore::Lock;
  enum class Lost { is_an_error, is_fine };  // what it is to a wait that nobody reads any more

  /// `look_again`: the acceptor's thread is to look which wake-up sockets it watches.
  CreditGate(ProducerCore& core, std::function<void()> look_again) noexcept
      : core_(core), look_again_(std::move(look_again)) {}

  /// A slot for a message of that size, which holds a credit from then on.
  [[nodiscard]] Result<Slot*> await_slot(Lock& lock, Bytes bytes, Deadline deadline);
  /// A credit alone, for what goes within a ring.
  [[nodiscard]] Result<void> await_room(Lock& lock, bool needs_slot, Bytes bytes,
                                        Deadline deadline);
  /// All consumers know the memory that the slot's message lies in.
  [[nodiscard]] Result<void> announce(Lock& lock, const Slot& slot, Deadline deadline);
  /// Until `ready`, looking at the consumers' pages each turn. `ready` true wins over consumers
  /// that left: what they had already given back is good.
  template <class Ready>
  [[nodiscard]] Result<void> wait_until(Lock& lock, Deadline deadline, Ready ready,
                                        Lost lost = Lost::is_an_error) {
    core_.consumers->refresh();
    if (ready()) return {};
    return sleep(lock, deadline, Condition::of(ready), lost);
  }
  /// An error once nobody reads any more.
  [[nodiscard]] Result<void> check_readers() const;

  /// No wait lasts from now on. Any thread; wake the producer then.
  void stop() noexcept { stopping_.store(true, std::memory_order_release); }

  // What was passed on must go back to its own sender as soon as the consumers have released it,
  // even if nobody calls us: then the acceptor watches the wake-up sockets instead of the caller.
  // All under the lock.

  /// The caller goes its way: is there anything that it would have to look after?
  void heed_forwards();
  void watch_wakes(const std::function<Result<AcceptWatch>(int descriptor)>& watch);
  /// On the acceptor's thread: a consumer rang.
  void credits_came();

 private:
  /// Somebody's question, borrowed.
  struct Condition {
    template <class Ready>
    static Condition of(Ready& ready) noexcept {
      return {&ready, [](void* asked) { return (*static_cast<Ready*>(asked))(); }};
    }
    bool operator()() const { return ask(asked); }
    void* asked;
    bool (*ask)(void* asked);
  };
  Result<void> sleep(Lock& lock, Deadline deadline, Condition ready, Lost lost);
  Result<void> sleep_until(Lock& lock, Deadline deadline, Condition ready, Lost lost);
  [[nodiscard]] Error not_in_time() const;
  void stop_heeding() noexcept;
  [[nodiscard]] bool is_stopping() const noexcept {
    return stopping_.load(std::memory_order_acquire);
  }

  ProducerCore& core_;
  std::function<void()> look_again_;
  bool caller_waits_ = false;    // under the lock
  bool acceptor_heeds_ = false;  // under the lock; and the intent to sleep is announced for it
  std::atomic<bool> stopping_{false};
};

}  // namespace gantry
