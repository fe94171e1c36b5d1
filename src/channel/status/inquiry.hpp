#pragma once  // channel/status/inquiry.hpp: many producers asked at a time what their channels are
              // doing.

#include <optional>

#include "channel/naming/rendezvous.hpp"
#include "channel/status/status_wire.hpp"
#include "channel/wire/connection.hpp"

namespace gantry {

/// One producer that is being asked. Whatever it answers, and whether it does, costs nobody more
/// than the deadline that all of a batch share.
class Inquiry {
 public:
  /// `status`: what is known without the producer; filled in as it answers.
  Inquiry(ChannelStatus status, Fd socket);

  [[nodiscard]] int socket() const noexcept { return over_ ? -1 : connection_.receive_fd(); }
  /// Something is there, or the other end hung up.
  void take_in();
  /// It had its time.
  void give_up();
  [[nodiscard]] ChannelStatus finish() &&;

 private:
  void end(std::string silence);

  ChannelStatus status_;
  Connection connection_;
  StatusReceiver receiver_;
  bool over_ = false;
};

/// Asks all of them and waits for their answers, until `deadline`.
void inquire(std::span<Inquiry> inquiries, Deadline deadline);

}  // namespace gantry
