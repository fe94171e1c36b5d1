#include "channel/received_slabs.hpp"

#include <algorithm>

#include "channel/step.hpp"

namespace gantry {
namespace {

constexpr std::size_t kMaxSlabs = 4096;  // a hostile producer's descriptors end here
// Of packets heard at once: who sends them without end is not listened to without end.
constexpr int kMaxPackets = 1024;
constexpr int kMaxTimes = 16;

}  // namespace

Result<void> ReceivedSlab::make_present(Bytes offset, Bytes size) {
  const Bytes end = offset + size;
  if (end <= touched) return {};
  const Bytes from = std::max(touched, offset);
  GANTRY_TRY(region->touch(from, end - from));
  touched = end;
  return {};
}

Result<ReceivedSlab*> ReceivedSlabs::find(std::uint32_t number, int socket, Deadline deadline) {
  for (int times = 0; times < kMaxTimes; ++times) {
    const auto found = slabs_.find(number);
    if (found != slabs_.end()) return &found->second;
    const auto heard = hear(socket, deadline);
    if (heard) continue;
    const Code code = heard.error().code;
    if (code == Code::timed_out || code == Code::peer_gone)
      return fail(Code::peer_misbehaved, "a message in memory it never sent");
    return tl::unexpected(heard.error());
  }
  return fail(Code::peer_misbehaved, "a message in memory that it never comes to send");
}

Result<void> ReceivedSlabs::hear(int socket, Deadline deadline) {
  bool first = true;
  for (int packets = 0; packets < kMaxPackets; ++packets, first = false) {
    auto received = receive_wire(socket, first ? deadline : Deadline::now());
    if (!received && received.error().code == Code::timed_out && !first) return {};
    if (!received) return tl::unexpected(std::move(received).error());
    if (received->closed) {
      if (!first) return {};
      return fail(Code::peer_gone, "the producer hung up");
    }
    GANTRY_TRY(learn(*received));
  }
  return {};  // the rest at the next occasion
}

Result<void> ReceivedSlabs::learn(Received& received) {
  const WirePacket& packet = received.packet;
  if (packet.kind == PacketKind::slab_gone) {
    const auto found = slabs_.find(packet.slab);
    // Honest producers drop a slab when all of it came back; under a held message it must stay.
    if (found == slabs_.end() || found->second.held.load(std::memory_order_acquire) != 0)  // [U]
      return fail(Code::peer_misbehaved, "it dropped memory that is in use");
    slabs_.erase(found);
    return {};
  }
  if (packet.kind == PacketKind::line && received.fds.size() == 1 &&
      !std::exchange(line_came_, true)) {
    line_ = std::move(received.fds[0]);
    return {};
  }
  if (packet.kind != PacketKind::slab || received.fds.size() != 1 || slabs_.size() >= kMaxSlabs ||
      slabs_.contains(packet.slab))
    return fail(Code::peer_misbehaved, "an unexpected packet");
  GANTRY_ASSIGN(Region region, Region::import(received.fds[0].release(), packet.bytes));
  slabs_.try_emplace(packet.slab, std::move(region));
  GANTRY_STEP(slab_learned);
  return {};
}

Bytes ReceivedSlabs::mapped_bytes() const noexcept {
  Bytes sum = 0;
  for (const auto& [number, slab] : slabs_) sum += slab.region->size();
  return sum;
}

}  // namespace gantry
