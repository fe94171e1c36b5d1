#pragma once  // channel/consumer/join_handshake.hpp: how a receiving end gets what it shares with
              // its producer.

#include "core/channel/consumer/consumer_waiter.hpp"

namespace gantry {

/// ask(), then hear() until it says true: packet by packet, never waiting, so that the acceptor's
/// thread can do it for an inbox.
class GANTRY_LOCAL JoinHandshake {
 public:
  JoinHandshake(ConsumerCore& core, ReceivedPayloads& payloads, ConsumerWaiter& waiter) noexcept
      : core_(core), payloads_(payloads), waiter_(waiter) {}

  /// Begins, also after a producer that died while it let this end in.
  Result<void> ask(int send_fd);
  Result<bool> hear(int send_fd, Received& received);

 private:
  Result<void> accept_welcome(int send_fd, Received& received);
  Result<void> check_pages() const;

  ConsumerCore& core_;
  ReceivedPayloads& payloads_;
  ConsumerWaiter& waiter_;
};

}  // namespace gantry
