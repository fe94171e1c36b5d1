#pragma once  // channel/producer/producer_status.hpp: what a producer reports of itself.

#include "core/channel/producer/credit_gate.hpp"

namespace gantry {

/// Answers `gantry ls` on the acceptor's thread, and explain() on any.
class ProducerStatus {
 public:
  ProducerStatus(ProducerCore& core, const PayloadAllocator& allocator) noexcept
      : core_(core), allocator_(allocator) {}

  [[nodiscard]] ChannelStatus describe() const;
  /// `unsent`: messages of send_async() that go before the next one. `has_second`: a second thread
  /// may copy.
  [[nodiscard]] ChannelExplanation explain(Bytes payload, std::uint64_t unsent,
                                           bool has_second) const;

 private:
  [[nodiscard]] PathStatus path_of(const LastCopy& copy) const;
  void explain_waits(ChannelExplanation& told, Bytes payload, bool in_ring,
                     std::uint64_t unsent) const;

  ProducerCore& core_;
  const PayloadAllocator& allocator_;
};

}  // namespace gantry
