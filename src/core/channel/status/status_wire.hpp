#pragma once  // channel/status/status_wire.hpp: ChannelStatus as bytes between processes.
              // docs/formats/channel.md

#include <gantry/runtime.hpp>

#include "core/channel/wire/protocol.hpp"

namespace gantry {

/// Largest answer; nobody reads beyond it.
inline constexpr Bytes kMaxStatusBytes = Bytes{512} << 10;
/// Largest packet of an answer. The packets follow the `status` packet that says how many bytes
/// there are.
inline constexpr Bytes kStatusPacketBytes = Bytes{16} << 10;
inline constexpr std::size_t kMaxDeparted = 64;  ///< The most that are listed.
inline constexpr std::size_t kMaxSendersTold = 1024;
inline constexpr std::size_t kMaxStatusText = 4096;

/// Encodes what the producer knows. The asker finds out names, states and the producer's identity.
[[nodiscard]] std::vector<std::byte> encode_status(const ChannelStatus& status);

/// Decodes into `status` and keeps its other fields. Trusts nothing in `bytes`: counts, sizes and
/// enumerations are checked, control characters in texts are replaced. Errors: `peer_misbehaved`;
/// then `status` may hold part of the answer.
[[nodiscard]] Result<void> decode_status(ConstByteSpan bytes, ChannelStatus& status);

/// Makes the owner of an inbox's name its one consumer, which is there, who receives and produces
/// nothing.
void name_the_receiver(ChannelStatus& status);

/// Sends the answer to hello{inspect}.
[[nodiscard]] Result<void> send_status(int socket, ConstByteSpan answer);

/// Puts an answer together, packet by packet.
class StatusReceiver {
 public:
  /// Reads one packet that is there on `socket`. True: the answer is complete. Errors:
  /// `peer_misbehaved`, `peer_gone`, `timed_out` when nothing is there.
  [[nodiscard]] Result<bool> take_in(int socket);
  [[nodiscard]] ConstByteSpan bytes() const noexcept { return bytes_; }

 private:
  [[nodiscard]] Result<bool> begin(int socket);

  bool begun_ = false;
  Bytes wanted_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace gantry
