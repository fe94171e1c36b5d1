#pragma once  // channel/rpc/rpc_kind.hpp: the messages between a client and its server.

#include <gantry/channel.hpp>

namespace gantry {

// They go over two channels: the client's to the server's inbox, and one that the server opens over
// the control connection (PacketKind::control) that the client sent first. MessageInfo::user is the
// kind of a message.
enum class RpcKind : std::uint64_t {
  introduce = 1,  // client, first: it has sent its control connection; no payload
  request,        // client: with a correlation and perhaps a deadline
  cancel,         // client: cancels a correlation; no payload
  reply,          // server
  refusal,        // server: a Refusal, then the text
  post,           // client of a queue of work, answered by nothing: an item
  note,           // the same without a payload: MessageInfo::type says what, the correlation whose
};

struct Refusal {
  std::uint32_t code = 0;  // a Code
};

inline constexpr std::size_t kMaxRefusalText = 1024;

// ---- options that an end made of two ends hands to each of them ------------------------------

[[nodiscard]] inline EndOptions end_part(const EndOptions& all) {
  return all;
}
/// Without `as`, which is of the user's payloads alone: what the ends say to each other besides
/// travels as it is. Each send of a payload names it.
[[nodiscard]] inline PayloadOptions payload_part(const PayloadOptions& all) {
  PayloadOptions part = all;
  part.as.reset();
  return part;
}
/// Of such a send: SendOptions::as. Lives as long as `all`.
[[nodiscard]] inline const As* wish_of(const PayloadOptions& all) noexcept {
  return all.as ? &*all.as : nullptr;
}

}  // namespace gantry
