#pragma once  // channel/status/status_wire.hpp: ChannelStatus as bytes between processes.
              // docs/formats/channel.md

#include <gantry/channel/status.hpp>

#include "channel/wire/protocol.hpp"

namespace gantry {

/// No answer is longer; nobody reads on beyond it.
inline constexpr Bytes kMaxStatusBytes = Bytes{128} << 10;
/// It travels in packets of at most so many bytes, behind the `status` packet that says how many.
inline constexpr Bytes kStatusPacketBytes = Bytes{16} << 10;
inline constexpr std::size_t kMaxDeparted = 64;  ///< Told of at most.
inline constexpr std::size_t kMaxSendersTold = 1024;
inline constexpr std::size_t kMaxStatusText = 4096;

/// What the producer knows. Names, states and who it is itself, the asker finds out.
[[nodiscard]] std::vector<std::byte> encode_status(const ChannelStatus& status);

/// Into `status`, which keeps what is not in it. Nothing of `bytes` is trusted: counts, sizes and
/// enumerations are checked, control characters in texts are replaced. Errors: `peer_misbehaved`;
/// `status` may hold part of it then.
[[nodiscard]] Result<void> decode_status(ConstByteSpan bytes, ChannelStatus& status);

/// The answer to hello{inspect}.
[[nodiscard]] Result<void> send_status(int socket, ConstByteSpan answer);

/// Puts an answer together again, packet by packet.
class StatusReceiver {
 public:
  /// Takes in what is there on `socket`, one packet. True: it is complete. Errors:
  /// `peer_misbehaved`, `peer_gone`, `timed_out` when there is nothing.
  [[nodiscard]] Result<bool> take_in(int socket);
  [[nodiscard]] ConstByteSpan bytes() const noexcept { return bytes_; }

 private:
  [[nodiscard]] Result<bool> begin(int socket);

  bool begun_ = false;
  Bytes wanted_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace gantry
