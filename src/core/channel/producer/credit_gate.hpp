#pragma once  // channel/producer/credit_gate.hpp: how a producer waits for its consumers, and for
              // memory.

#include <atomic>
#include <functional>

#include "core/base/clock.hpp"
#include "core/channel/producer/producer_core.hpp"
#include "core/channel/wire/notice.hpp"

namespace gantry {

// [F] A consumer that takes a small message marks how far it has come, then looks whether the ring
// is full or the stream ended, both without a fence; only if so does it look at who sleeps. Its
// mark may still be on its way when it does not see the newest publication; a producer that then
// sleeps would never be woken for it. So the first sleep after a publication is short, and a
// producer that sleeps without limit has looked once more: by then the mark has come.

/// What a wait is for, asked when its time is up and when a notice is due.
struct WaitReason {
  enum class Kind : std::uint8_t { consumer, room, memory, window, end };
  Kind kind = Kind::room;  ///< A producer says one notice of each kind.
  std::string awaited;     ///< "for a slot: ..."; empty: it has come since, or takes no time.
  std::string late = {};   ///< The error's text; empty: "timed out waiting " and `awaited`.
};

/// Gives senders their slots: it waits for a credit. Every wait of a producer for its consumers is
/// one of this gate's. All under the producer's lock, which a sleep gives up.
class CreditGate {
 public:
  using Lock = ProducerCore::Lock;
  enum class Lost { is_an_error, is_fine };  // whether a wait fails when nobody reads any more

  /// `look_again`: tells the acceptor's thread to decide anew which wake-up sockets it watches.
  CreditGate(ProducerCore& core, std::function<void()> look_again) noexcept
      : core_(core), look_again_(std::move(look_again)) {}

  /// Waits for a slot for a message of that size; the slot holds a credit from then on. Errors
  /// besides those of a wait: `busy` when loans alone are in the way, which only the caller ends.
  [[nodiscard]] Result<Slot*> await_slot(Lock& lock, Bytes bytes, Deadline deadline);
  /// Waits for a credit alone, for a message that goes into the ring; with `needs_slot` for a slot,
  /// with `or_beside` also until the consumers take payloads beside records, which need none.
  [[nodiscard]] Result<void> await_room(Lock& lock, bool needs_slot, Bytes bytes, Deadline deadline,
                                        bool or_beside = false);
  /// Waits until all consumers know the memory of the slot's message.
  [[nodiscard]] Result<void> announce(Lock& lock, const Slot& slot, Deadline deadline);
  /// Waits until `ready`, and reads the consumers' pages each turn. `ready` wins over consumers
  /// that left: what they had already given back counts. `why` returns a WaitReason.
  template <class Ready, class Reason>
  [[nodiscard]] Result<void> wait_until(Lock& lock, Deadline deadline, Ready ready, Reason why,
                                        Lost lost = Lost::is_an_error) {
    core_.consumers->refresh();
    if (ready()) return {};
    return sleep(lock, deadline, std::ref(ready), std::ref(why), lost, trace::Awaited::consumer);
  }
  /// True if a message need not wait for a credit, nor if nobody reads any more. Without the lock.
  [[nodiscard]] bool has_credit(bool needs_slot, Bytes bytes) const;
  /// An error if nobody reads any more.
  [[nodiscard]] Result<void> check_consumers() const;

  /// Ends all waits, from now on. Any thread; wake the producer then.
  void stop() noexcept { stopping_.store(true, std::memory_order_release); }

  // A message that was passed on must go back to its own sender as soon as the consumers have
  // released it, even if nobody calls us. So while the caller does not wait the acceptor watches
  // the wake-up sockets. All under the lock.

  /// The caller returns: the acceptor takes over if there is anything to watch.
  void watch_forwards();
  /// True if the acceptor must watch. Also without the lock: after a change to true the acceptor is
  /// roused, which orders it.
  [[nodiscard]] bool acceptor_watches() const noexcept {
    return acceptor_watches_.load(std::memory_order_relaxed);
  }
  /// True if it watches them from here on.
  bool watch_wakes(const std::function<Result<AcceptWatch>(int descriptor)>& watch);
  /// Called on the acceptor's thread: a consumer rang.
  void credits_came();

 private:
  using Condition = std::function<bool()>;
  using Why = std::function<WaitReason()>;
  Result<void> sleep(Lock& lock, Deadline deadline, const Condition& ready, const Why& why,
                     Lost lost, trace::Awaited awaited);
  [[nodiscard]] pid_t peer() const noexcept;
  Result<void> sleep_until(Lock& lock, Deadline deadline, const Condition& ready, const Why& why,
                           Lost lost, trace::OpenWait& open);
  [[nodiscard]] std::string take_notice(Deadline& patience, const Why& why);
  void stop_watching() noexcept;
  [[nodiscard]] bool is_stopping() const noexcept {
    return stopping_.load(std::memory_order_acquire);
  }

  ProducerCore& core_;
  std::function<void()> look_again_;
  bool caller_waits_ = false;  // under the lock
  // Written under the lock. The intent to sleep is announced for the acceptor.
  std::atomic<bool> acceptor_watches_{false};
  unsigned noticed_ = 0;  // under the lock; a bit for each WaitReason::Kind
  std::atomic<bool> stopping_{false};
};

/// Takes blocks for messages from the producer's pool. If messages in flight use up the budget, it
/// waits at the gate until one comes back. Loans that only the caller can give back never come back
/// while it waits: if they leave no room it is an error at once, `out_of_memory`.
class PayloadAllocator {
 public:
  enum class Lingering { is_given_up, is_awaited_elsewhere };
  /// `lingering`: what becomes of memory that readers still map when time is up: the message goes
  /// on without it, or it is a time-out, and somebody with more time tries again.
  PayloadAllocator(ProducerCore& core, CreditGate& gate,
                   Lingering lingering = Lingering::is_given_up) noexcept
      : core_(core), gate_(gate), lingering_(lingering) {}

  [[nodiscard]] Result<Block> allocate(Bytes size, Deadline deadline);
  /// What a send of `size` bytes of memory would wait for now, as ConsumerSet::obstacles(). Under
  /// the lock.
  [[nodiscard]] std::optional<std::string> obstacle(Bytes size) const;
  /// Takes the memory of the slot's last message if it will do; the caller has the slot.
  [[nodiscard]] static bool reuse(Slot& slot, Bytes size) noexcept;
  /// Takes memory of at least `size` bytes for a slot that the caller has.
  [[nodiscard]] Result<void> fill(Slot& slot, Bytes size, Deadline deadline);

 private:
  [[nodiscard]] std::optional<Error> loans_in_the_way(Bytes size) const;
  [[nodiscard]] std::string in_use() const;
  [[nodiscard]] Result<bool> await_return(CreditGate::Lock& held, std::uint64_t before,
                                          Deadline deadline);

  ProducerCore& core_;
  CreditGate& gate_;
  Lingering lingering_;
};

}  // namespace gantry
