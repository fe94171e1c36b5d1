#pragma once  // channel/consumer/landing_reader.hpp: reading a message while it lands.

#include <memory>

#include "core/channel/consumer/consumer_waiter.hpp"

namespace gantry {

/// What Incoming and receive_into() do: take what has landed of `message`, and wait for what has
/// not. A plain value over both. Errors: `timed_out`, `aborted`, `closed`, `interrupted`.
class LandingReader {
 public:
  /// `waiter`: null for a small message.
  LandingReader(ConsumerWaiter* waiter, IncomingMessage& message) noexcept
      : waiter_(waiter), message_(message) {}

  [[nodiscard]] Result<ConstByteSpan> next(Deadline deadline);
  [[nodiscard]] Result<ConstByteSpan> wait_for(Bytes bytes, Deadline deadline);
  [[nodiscard]] Result<Bytes> into(ByteSpan destination, Deadline deadline);
  [[nodiscard]] Result<Bytes> into(ByteSpan destination, const ReshapePlan& plan,
                                   Deadline deadline);
  [[nodiscard]] Result<Message> whole(Deadline deadline);

 private:
  [[nodiscard]] Result<ConstByteSpan> take_next(Deadline deadline);
  [[nodiscard]] Result<void> await(Bytes bytes, Deadline deadline);
  [[nodiscard]] Result<void> await_front(Bytes bytes, Deadline deadline);
  [[nodiscard]] Error not_in_time() const;

  ConsumerWaiter* waiter_;
  IncomingMessage& message_;
};

}  // namespace gantry
