// A consumer whose producer came to it: one of an inbox's many.
#include "channel/consumer/incoming.hpp"

namespace gantry {

Result<std::shared_ptr<Consumer::Impl>> Consumer::Impl::make_called(
    std::string_view name, const ConsumerOptions& options, std::shared_ptr<SenderQuota> quota) {
  ConsumerOptions own = options;
  own.metrics_descriptor = -1;  // that one is the inbox's
  GANTRY_ASSIGN(auto impl, prepare(name, own));
  impl->is_called_ = true;
  impl->quota_ = std::move(quota);
  return impl;
}

Result<std::optional<Message>> Consumer::Impl::try_receive() {
  const std::uint64_t asked = read_ticks();
  if (next_is_small() && !broken_) {
    GANTRY_ASSIGN(auto message, take_small(asked, false));
    return message;
  }
  GANTRY_ASSIGN(const bool whole, look(Wanted::whole));
  if (!whole) {
    report_taken();
    return std::nullopt;
  }
  GANTRY_ASSIGN(auto message, hand_out(asked));
  return message;
}

void Consumer::Impl::wake_up() noexcept {
  disarm();
  std::array<pollfd, 3> entries{pollfd{wake_receiver_.descriptor(), POLLIN, 0},
                                pollfd{connection_.receive_fd(), POLLIN, 0},
                                pollfd{pidfd_.get(), POLLIN, 0}};
  if (::poll(entries.data(), entries.size(), 0) > 0) examine_peer(entries);
}

// It is sent before the first message that speaks of it; an error shows when that is looked for.
ReceivedFd Consumer::Impl::take_control_end() {
  static_cast<void>(slabs_.hear(connection_.receive_fd(), Deadline::now()));
  confirm_heard();
  return slabs_.take_control_end();
}

}  // namespace gantry
