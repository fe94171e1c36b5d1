#pragma once  // channel/status/inquiry.hpp: asks many producers at a time how their channels stand.

#include <optional>

#include "core/channel/naming/rendezvous.hpp"
#include "core/channel/status/status_wire.hpp"
#include "core/channel/wire/connection.hpp"

namespace gantry {

/// One producer that is being asked. Whether it answers or not, it costs nobody more than the
/// deadline that a whole batch shares.
class Inquiry {
 public:
  /// `status`: what is known without the producer; its answer is added.
  Inquiry(ChannelStatus status, Fd socket);

  [[nodiscard]] int socket() const noexcept { return over_ ? -1 : connection_.receive_fd(); }
  /// Call when something is there, or the other end hung up.
  void take_in();
  /// Call when its time is over.
  void give_up();
  [[nodiscard]] ChannelStatus finish() &&;

 private:
  void end(std::string silence);

  ChannelStatus status_;
  Connection connection_;
  StatusReceiver receiver_;
  bool over_ = false;
};

/// Asks all of them and waits until `deadline` for their answers.
void inquire(std::span<Inquiry> inquiries, Deadline deadline);

}  // namespace gantry
