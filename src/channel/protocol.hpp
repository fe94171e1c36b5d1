#pragma once  // channel/protocol.hpp: the packets over a channel's socket. docs/formats/channel.md

#include <gantry/types.hpp>

#include "base/socket.hpp"

namespace gantry {

// Sequence of a session (C consumer, P producer):
//   C hello{join}    P welcome + [producer page, ring page, producer's event, producer's metrics]
//   C join + [consumer page, consumer's event, consumer's metrics], its depth and policy
//   P slab + [memory] for each there is already      P ready
//   P slab + [memory], slab_gone: at any time from then on; C sends nothing more.
// Where C owns the name (an inbox) and P called it, P begins with hello{deliver}; the rest is the
// same: who connected to whom plays no part in it.
// Or: C hello{inspect}    P status + [producer's metrics, consumer's metrics if one has joined]
// Or, at any point: P refused.
enum class PacketKind : std::uint32_t {
  hello = 1,
  welcome,
  join,
  ready,
  slab,
  slab_gone,
  status,
  refused,
};
enum class Purpose : std::uint32_t { join = 1, inspect, deliver };

/// Every packet has this one shape; which fields count, the kind says.
struct WirePacket {
  static constexpr std::uint64_t kMagic = 0x3154454b4b415047;  // "GPAKKET1"

  std::uint64_t magic = kMagic;
  std::uint32_t version = 0;
  PacketKind kind{};
  Purpose purpose{};          // hello
  std::uint32_t slab = 0;     // slab, slab_gone
  std::uint64_t bytes = 0;    // slab: its size. status: bytes of slabs
  std::uint32_t reason = 0;   // refused: a Code
  std::int32_t peer_pid = 0;  // status: the consumer's, 0 for none
  std::uint32_t slots = 0;    // status: credits. join: depth, 0 for the usual
  std::uint32_t held = 0;     // status: credits out. join: SlowReader
  std::uint64_t age_ns = 0;   // status: since the channel was opened
  std::uint64_t is_inbox = 0;  // status: 1, slots and held are of producers and those there are
};
static_assert(sizeof(WirePacket) == 64);

[[nodiscard]] Result<void> send_wire(int socket, WirePacket packet, std::span<const int> fds = {});
[[nodiscard]] Result<void> send_hello(int socket, Purpose purpose);
/// Says no. Whoever is gone already is not told.
void refuse(int socket, Code reason) noexcept;

struct Received {
  WirePacket packet;
  std::vector<Fd> fds;
  bool closed = false;  ///< The peer hung up instead.
};
/// Checks size, magic and version; nothing else of the packet is to be trusted.
[[nodiscard]] Result<Received> receive_wire(int socket, Deadline deadline);

/// `received` must be of `kind` with `fds` descriptors. A refusal becomes its error, a hang-up
/// `peer_gone`.
[[nodiscard]] Result<Received> expect(Received received, PacketKind kind, std::size_t fds);

}  // namespace gantry
