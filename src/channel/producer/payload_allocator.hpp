#pragma once  // channel/producer/payload_allocator.hpp: memory for payloads.

#include "channel/producer/credit_gate.hpp"

namespace gantry {

/// Blocks of the producer's pool for messages. Where the budget is taken by messages on their way
/// it waits until one comes back, at the gate.
class PayloadAllocator {
 public:
  PayloadAllocator(ProducerCore& core, CreditGate& gate) noexcept : core_(core), gate_(gate) {}

  [[nodiscard]] Result<Block> allocate(Bytes size, Deadline deadline);
  /// Memory for a slot that the caller has, `size` bytes or more of it.
  [[nodiscard]] Result<void> fill(Slot& slot, Bytes size, Deadline deadline);

 private:
  [[nodiscard]] Result<bool> await_return(CreditGate::Lock& held, std::uint64_t before,
                                          Deadline deadline);

  ProducerCore& core_;
  CreditGate& gate_;
};

}  // namespace gantry
