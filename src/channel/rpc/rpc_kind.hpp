#pragma once  // channel/rpc/rpc_kind.hpp: what a client and its server say to each other.

#include <gantry/channel/message.hpp>

namespace gantry {

// Over two channels: the client's to the server's inbox, and one that the server opens over the
// control connection (PacketKind::control) that the client sent first. MessageInfo::user says what
// a message is.
enum class RpcKind : std::uint64_t {
  introduce = 1,  // client, first: its line has been sent; no payload
  request,        // client: with a correlation and perhaps a deadline
  cancel,         // client: of a correlation; no payload
  reply,          // server
  refusal,        // server: a Refusal, then the text
};

struct Refusal {
  std::uint32_t code = 0;  // a Code
};

inline constexpr std::size_t kMaxRefusalText = 1024;

}  // namespace gantry
