#pragma once  // channel/wire/protocol.hpp: the packets over a channel's socket.
              // docs/formats/channel.md

#include <array>
#include <gantry/types.hpp>
#include <optional>

#include "core/base/enum_text.hpp"
#include "core/base/os/socket.hpp"

namespace gantry {

// Sequence of a session (C consumer, P producer):
//   C hello{join}    P welcome + [producer page, ring page, P's wake-up sender]
//   C join + [consumer page, C's wake-up sender, C's metrics], its depth and policy
//   P slab + [memory], or slabs + [memory of several], in which its first messages lie     P ready
//   P slab + [memory], slab_gone: at any time from then on. C sends nothing more; it counts these
//   packets in its page: ConsumerPage::heard.
// Where C has the name (an inbox), P connects and says hello{deliver} first; the rest is the same.
// Then also:
//   P control + [a socket]: once, at any time. P waits at its other end to be delivered to. Through
//   it C first sends a control connection of its own, over which P answers: connection.hpp
// Or: C hello{inspect}    P status, then the answer in packets of its own (status_wire.hpp)
// Or, at any point: P refused. Once it has joined, C may say refused as its last word.
enum class PacketKind : std::uint32_t {
  hello = 1,
  welcome,
  join,
  ready,
  slab,
  slab_gone,
  status,
  refused,
  control,
  slabs,
};
/// `work`: as `deliver`, at a queue of work, whose members are not an inbox's producers. `call`: at
/// a server, whose clients say `deliver` like an inbox's producers; sent only in a refusal.
/// `hand`: a bridge's, which hands a caller's connection over; the rest is the component net's.
enum class Purpose : std::uint32_t { join = 1, inspect, deliver, work, call, hand };
[[nodiscard]] constexpr Purpose said_for(Purpose served) noexcept {
  return served == Purpose::call ? Purpose::deliver : served;
}
/// The end that has the name, in errors: "producer", "inbox", "server" or "queue".
[[nodiscard]] constexpr std::string_view owner_of(Purpose served) noexcept {
  return text_in({"unknown", "producer", "unknown", "inbox", "queue", "server"}, served);
}

inline constexpr std::size_t kTokenBytes = 64;
using WireToken = std::array<std::byte, kTokenBytes>;

/// All packets have this shape; the kind says which fields count.
struct WirePacket {
  static constexpr std::uint64_t kMagic = 0x3154454b4b415047;  // "GPAKKET1"

  std::uint64_t magic = kMagic;
  std::uint32_t version = 0;
  PacketKind kind{};
  Purpose purpose{};         // hello; refused: what the name serves, 0 if it is not said
  std::uint32_t slab = 0;    // slab, slab_gone
  std::uint64_t bytes = 0;   // slab: its size. status: size of the answer that follows
  std::uint32_t reason = 0;  // refused: a Code
  std::int32_t reserved_pid = 0;
  std::uint32_t slots = 0;  // join: depth, 0 for the default
  std::uint32_t held = 0;   // join: SlowConsumer
  std::uint64_t reserved[2] = {};
  WireToken token{};  // hello, padded with zeros; slabs: their numbers, 4 bytes each
};
static_assert(sizeof(WirePacket) == 128);

[[nodiscard]] Result<void> send_wire(int socket, WirePacket packet, std::span<const int> fds = {});
[[nodiscard]] Result<void> send_hello(int socket, Purpose purpose, const WireToken& token = {});
class Connection;
/// The same over a connection of ours. If it was turned away before it spoke, the error is the
/// refusal.
[[nodiscard]] Result<void> send_hello(const Connection& connection, Purpose purpose,
                                      const WireToken& token);
/// The refusal that the other end sent before it closed the socket, if any; else `error`.
[[nodiscard]] Error refusal_or(int receive_fd, Error error);
/// Sends a refusal, unless the other end is gone. `served`: the purpose that the name serves.
void refuse(int socket, Code reason, Purpose served = {}) noexcept;
/// True if a handshake or a session failed by no fault of the other side, which is then told why it
/// is refused.
[[nodiscard]] constexpr bool is_own_trouble(Code code) noexcept {
  return code == Code::system || code == Code::out_of_memory;
}
/// The last word of an end that hangs up for want of descriptors or memory; nothing for other
/// codes.
inline void tell_own_trouble(int socket, Code code) noexcept {
  if (is_own_trouble(code)) refuse(socket, code);
}
/// The same of an end that the other one has joined, which also says that what the other one sends
/// is more than it takes (`too_large`), or that it has ended well (`closed`).
inline void tell_why(int socket, Code code) noexcept {
  if (is_own_trouble(code) || code == Code::too_large || code == Code::closed) refuse(socket, code);
}
/// That word, if it is what the other end said next. Never waits. The error has no name in front;
/// that of `too_large` is `peer_gone`, as of one that hangs up without a word.
[[nodiscard]] std::optional<Error> told_why(int receive_fd);

struct Received {
  WirePacket packet;
  ReceivedFds fds;
  bool closed = false;  ///< The peer hung up instead.
};
/// Checks size, magic and version, and that descriptors are memory or Unix sockets. Trust nothing
/// else in the packet.
[[nodiscard]] Result<Received> receive_wire(int socket, Deadline deadline);

/// Checks that `received` is of `kind` with `fds` descriptors. A refusal becomes its error, a
/// hang-up `peer_gone`.
[[nodiscard]] Result<Received> expect(Received received, PacketKind kind, std::size_t fds);

}  // namespace gantry
