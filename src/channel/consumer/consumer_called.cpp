// A consumer whose producer came to it: one of an inbox's many.
#include "channel/consumer/consumer.hpp"

namespace gantry {

Result<std::shared_ptr<Consumer::Impl>> Consumer::Impl::make_called(
    std::string_view name, const ConsumerOptions& options, std::shared_ptr<SenderQuota> quota,
    IsProtocol is_protocol) {
  ConsumerOptions own = options;
  own.metrics_descriptor = -1;  // that one is the inbox's
  GANTRY_ASSIGN(auto impl, prepare(name, own));
  impl->core_.is_called = true;
  impl->core_.is_protocol = is_protocol;
  impl->payloads_.limit(std::move(quota));
  return impl;
}

Result<std::optional<Message>> Consumer::Impl::try_receive() {
  const std::uint64_t asked = read_ticks();
  if (queue_.next_is_small()) {
    GANTRY_ASSIGN(auto message, queue_.copy_small());
    if (core_.is_protocol == nullptr || !core_.is_protocol(message.info()))
      note_received(message.info(), message.bytes().size(), asked, false, false);
    return message;
  }
  GANTRY_ASSIGN(const bool whole, queue_.look(Wanted::whole));
  if (!whole) {
    queue_.report_taken();
    return std::nullopt;
  }
  if (core_.is_protocol != nullptr && core_.is_protocol(queue_.pending()->info())) {
    Message message = queue_.pending()->become_message();
    static_cast<void>(queue_.take_pending());
    return message;
  }
  GANTRY_ASSIGN(auto message, hand_out(asked));
  return message;
}

void Consumer::Impl::wake_up() {
  waiter_.disarm();
  waiter_.look();
}

std::uint64_t Consumer::Impl::work_seen() const noexcept {
  IncomingMessage* const landing = queue_.pending();
  return payloads_.heard() + (landing != nullptr ? landing->landed() / kLeastChunk : 0);
}

}  // namespace gantry
