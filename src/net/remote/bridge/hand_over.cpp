#include "net/remote/bridge/hand_over.hpp"

#include <poll.h>

#include <cstring>

#include "core/base/os/socket.hpp"
#include "core/base/result.hpp"
#include "core/channel/naming/access.hpp"
#include "core/channel/naming/rendezvous.hpp"
#include "core/channel/wire/protocol.hpp"
#include "net/remote/remote_step.hpp"

namespace gantry {
namespace {

// A process that runs answers at once.
constexpr std::chrono::milliseconds kAnswerTime{500};
// The bridge welcomes its caller meanwhile.
constexpr std::chrono::seconds kConnectionTime{2 * kAdmissionTime};
constexpr std::size_t kLongestPeer = 96;
constexpr std::uint64_t kLongestMs = std::uint64_t{24} * 60 * 60 * 1000;

Result<Packet> next_packet(int line, ByteSpan into, int stop, Deadline deadline) {
  const unsigned readable = sleep_on({line, stop}, deadline.left());
  if ((readable & 2u) != 0) return fail(Code::interrupted, "interrupted");
  if (readable == 0) return fail(Code::timed_out, "no answer in time");
  GANTRY_ASSIGN(Packet packet, receive_packet(line, into, Deadline::now()));
  if (packet.size == 0) return fail(Code::peer_gone, "the other process hung up");
  return packet;
}

// Said by the owner of the name, not by its component net.
tl::unexpected<Error> refused(ConstByteSpan said, pid_t process) {
  WirePacket packet;
  if (said.size() == sizeof packet) std::memcpy(&packet, said.data(), sizeof packet);
  const auto is = [&](Code code) { return packet.reason == static_cast<std::uint32_t>(code); };
  if (packet.kind != PacketKind::refused || is(Code::unsupported))
    return fail(Code::unsupported,
                fmt::format("process {} serves no callers of other hosts", process));
  if (is(Code::permission_denied))
    return fail(Code::permission_denied, fmt::format("process {} refuses this bridge", process));
  return fail(Code::busy, fmt::format("process {} has no descriptors or no memory left", process));
}

}  // namespace

std::vector<std::byte> HandOffer::encode() const {
  const auto asked = request.encode();
  WordWriter out;
  out.bytes(session);
  out.number(static_cast<std::uint64_t>(kind), 1);
  out.number(static_cast<std::uint64_t>(patience.count()));
  out.number(static_cast<std::uint64_t>(stall_limit.count()));
  out.text(peer, kLongestPeer);
  out.bytes(asked);
  return out.take();
}

Result<HandOffer> HandOffer::decode(ConstByteSpan bytes) {
  WordReader in(bytes);
  HandOffer offer;
  in.bytes(offer.session);
  offer.kind = static_cast<Kind>(in.number(1, static_cast<std::uint64_t>(Kind::question)));
  offer.patience = std::chrono::milliseconds(in.number(8, kLongestMs));
  offer.stall_limit = std::chrono::milliseconds(in.number(8, kLongestMs));
  offer.peer = in.text(kLongestPeer);
  if (!in.is_fine()) return fail(Code::peer_misbehaved, "an offer that no bridge makes");
  GANTRY_ASSIGN(offer.request, RemoteRequest::decode(in.rest()));
  return offer;
}

Result<HandOver> HandOver::offer(const std::string& directory, const HandOffer& offer) {
  auto found = connect_to(directory, offer.request.channel + kSocketSuffix);
  if (!found && found.error().code == Code::timed_out)
    return fail(Code::busy, "its owner lets nobody in, and too many are waiting");
  if (!found && found.error().code == Code::not_found)
    return fail(Code::timed_out, "nobody has the name");
  GANTRY_ASSIGN(Fd line, std::move(found));
  GANTRY_TRY(admit_peer(line.get(), {}));  // as whoever joins it does
  if (auto said = send_hello(line.get(), Purpose::hand); !said)
    return fail(Code::busy, said.error().message);
  GANTRY_ASSIGN(const PeerIdentity process, peer_of(line.get()));
  // Whoever hung up may have said why.
  static_cast<void>(send_packet(line.get(), offer.encode()));
  GANTRY_REMOTE_STEP(hand_over_offered);
  std::array<std::byte, RemoteAnswer::kMostBytes> buffer{};
  auto heard = next_packet(line.get(), buffer, -1, Deadline::after(kAnswerTime));
  if (!heard && heard.error().code == Code::timed_out)
    return fail(Code::busy, fmt::format("process {} does not answer", process.pid));
  if (!heard)  // it hung up
    return fail(Code::busy, fmt::format("process {} takes no more callers now", process.pid));
  const auto said = std::span(buffer).first(heard->size);
  const auto answer = RemoteAnswer::decode(said);
  if (!answer) return refused(said, process.pid);
  return HandOver(std::move(line), *answer, process.pid);
}

Result<void> HandOver::give(Fd socket) const {
  const std::byte said{1};
  const int descriptor = socket.get();
  const std::size_t count = descriptor >= 0 ? 1 : 0;
  GANTRY_TRY(send_packet(line_.get(), {&said, 1}, {&descriptor, count}));
  GANTRY_REMOTE_STEP(connection_given);
  return {};
}

Result<HandOffer> hear_offer(int line, int stop, Deadline deadline) {
  std::array<std::byte, HandOffer::kMostBytes> buffer{};
  GANTRY_ASSIGN(const Packet packet, next_packet(line, buffer, stop, deadline));
  return HandOffer::decode(std::span(buffer).first(packet.size));
}

Result<void> answer_offer(int line, const RemoteAnswer& answer) {
  accept_rights(line, true);
  return send_packet(line, answer.encode());
}

bool has_given_up(int line) noexcept {
  pollfd end{line, POLLRDHUP, 0};
  return ::poll(&end, 1, 0) != 0;
}

Result<Fd> take_connection(int line, int stop) {
  std::byte said{};
  GANTRY_ASSIGN(Packet packet,
                next_packet(line, {&said, 1}, stop, Deadline::after(kConnectionTime)));
  if (packet.fds.size() != 1)
    return fail(Code::peer_misbehaved, "a bridge that hands nothing over");
  GANTRY_REMOTE_STEP(connection_taken);
  return std::move(packet.fds[0]);
}

}  // namespace gantry
