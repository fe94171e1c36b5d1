#include "core/channel/wire/protocol.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "core/channel/wire/connection.hpp"
#include "core/channel/wire/format.hpp"

namespace gantry {
namespace {

constexpr const char* kRaiseTheirs =
    "raise its limit of open files (ulimit -n), or end some of its work";

// The only kinds of descriptors that a channel wants.
bool is_wanted(const Fd& fd) noexcept {
  return ::fcntl(fd.get(), F_GET_SEALS) >= 0 || is_unix_socket(fd.get(), SOCK_STREAM) ||
         is_unix_socket(fd.get(), SOCK_SEQPACKET);
}

}  // namespace

Result<void> send_wire(int socket, WirePacket packet, std::span<const int> fds) {
  packet.version = kFormatVersion;
  return send_packet(socket, std::as_bytes(std::span(&packet, 1)), fds);
}

Result<void> send_hello(int socket, Purpose purpose, const WireToken& token) {
  WirePacket hello;
  hello.kind = PacketKind::hello;
  hello.purpose = purpose;
  hello.token = token;
  return send_wire(socket, hello);
}

Result<void> send_hello(const Connection& connection, Purpose purpose, const WireToken& token) {
  auto said = send_hello(connection.send_fd(), purpose, token);
  if (said || connection.is_pair()) return said;
  return tl::unexpected(refusal_or(connection.receive_fd(), std::move(said).error()));
}

Error refusal_or(int receive_fd, Error error) {
  if (error.code != Code::peer_gone) return error;
  auto last = receive_wire(receive_fd, Deadline::now());
  if (!last || last->closed || last->packet.kind != PacketKind::refused) return error;
  return expect(std::move(*last), PacketKind::welcome, 0).error();
}

std::optional<Error> told_why(int receive_fd) {
  const auto last = receive_wire(receive_fd, Deadline::now());
  if (!last || last->closed || last->packet.kind != PacketKind::refused) return std::nullopt;
  const Code code = static_cast<Code>(last->packet.reason);
  if (code == Code::closed) return Error{code, "has ended", {}};
  if (code == Code::too_large)
    return Error{
        Code::peer_gone, "hung up: what this end sends is more than it takes",
        "raise its ReceiveLimits (mapped_bytes, slabs, gathered_bytes) or ulimit -v; or lower "
        "PoolOptions::budget_bytes here"};
  if (!is_own_trouble(code)) return std::nullopt;
  return Error{code, "has no descriptors or no memory left, and ended the session", kRaiseTheirs};
}

void refuse(int socket, Code reason, Purpose served) noexcept {
  WirePacket packet;
  packet.kind = PacketKind::refused;
  packet.reason = static_cast<std::uint32_t>(reason);
  packet.purpose = served;
  static_cast<void>(send_wire(socket, packet));
}

Result<Received> receive_wire(int socket, Deadline deadline) {
  Received received;
  GANTRY_ASSIGN(
      Packet raw,
      receive_packet(socket, std::as_writable_bytes(std::span(&received.packet, 1)), deadline));
  if (raw.size == 0) {
    received.closed = true;
    return received;
  }
  if (raw.size != sizeof(WirePacket) || received.packet.magic != WirePacket::kMagic)
    return fail(
        Code::peer_misbehaved,
        fmt::format("the process at the other end does not speak Gantry: a packet of {} "
                    "bytes that begins with {:#x} instead of {} and {:#x}",
                    raw.size, received.packet.magic, sizeof(WirePacket), WirePacket::kMagic));
  if (received.packet.version != kFormatVersion)
    return fail(Code::unsupported,
                fmt::format("the other process speaks version {} of the channel format, this one "
                            "version {}",
                            received.packet.version, kFormatVersion),
                "build both against the same Gantry");
  if (!std::all_of(raw.fds.begin(), raw.fds.end(), is_wanted))
    return fail(Code::peer_misbehaved,
                "the other process sent a descriptor that is neither memory nor a Unix socket");
  received.fds = std::move(raw.fds);
  return received;
}

Result<Received> expect(Received received, PacketKind kind, std::size_t fds) {
  if (received.closed) return fail(Code::peer_gone, "the other process hung up");
  if (received.packet.kind == PacketKind::refused) {
    const Code code = static_cast<Code>(received.packet.reason);
    if (code == Code::already_exists)
      return fail(code, "the channel has all the consumers that it takes",
                  "raise ProducerOptions::consumers of its producer");
    if (code == Code::busy)
      return kind == PacketKind::hello  // an inbox should have said it, to its producer
                 ? fail(code, "the inbox has all the producers that it takes",
                        "raise InboxOptions::producers, or ServerOptions::clients")
                 : fail(code, "this user left the channel too often with messages in hand",
                        "release the messages of its former consumers first");
    if (code == Code::unsupported)
      return fail(Code::permission_denied,
                  "the producer admits no consumer that may hold it up (SlowConsumer::block)",
                  "set ConsumerOptions::when_slow to another policy");
    if (is_own_trouble(code))
      return fail(code, "the other process has no descriptors or no memory left to let this one in",
                  kRaiseTheirs);
    if (code == Code::invalid_argument)
      return fail(
          code,
          fmt::format("the name's owner is of another kind: {}", owner_of(received.packet.purpose)),
          "open a Consumer for a producer, Producer::connect() for an inbox, a Client for a "
          "server, a WorkMember for a queue");
    return fail(Code::permission_denied, "the other process refuses this one",
                "run both as the same user, or list it in EndOptions::access; tokens must be "
                "the same");
  }
  if (received.packet.kind != kind || received.fds.size() != fds)
    return fail(Code::peer_misbehaved,
                fmt::format("the other process broke the order of the handshake: packet {} with {} "
                            "descriptors instead of packet {} with {}",
                            static_cast<std::uint32_t>(received.packet.kind), received.fds.size(),
                            static_cast<std::uint32_t>(kind), fds));
  return received;
}

}  // namespace gantry
