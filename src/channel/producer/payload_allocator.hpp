#pragma once  // channel/producer/payload_allocator.hpp: memory for payloads.

#include "channel/producer/credit_gate.hpp"

namespace gantry {

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

  [[nodiscard]] Result<Block> allocate(Bytes size, Deadline deadline, CreditGate::Lent lent);
  /// What a send of `size` bytes of memory would wait for now, as ConsumerSet::obstacles(). Under
  /// the lock.
  [[nodiscard]] std::optional<std::string> obstacle(Bytes size) const;
  /// Takes the memory of the slot's last message if it will do; the caller has the slot.
  [[nodiscard]] static bool reuse(Slot& slot, Bytes size) noexcept;
  /// Takes memory of at least `size` bytes for a slot that the caller has.
  [[nodiscard]] Result<void> fill(Slot& slot, Bytes size, Deadline deadline, CreditGate::Lent lent);

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
