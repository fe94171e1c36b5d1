#include "channel/announced_slabs.hpp"

#include "channel/protocol.hpp"

namespace gantry {

Result<void> AnnouncedSlabs::introduce(int socket, const std::function<void()>& attach) {
  const std::lock_guard lock(mutex_);  // no slab falls between this list and announce()
  for (const std::uint32_t slab : announced_) GANTRY_TRY(send_slab(socket, slab));
  attach();
  socket_ = socket;
  WirePacket ready;
  ready.kind = PacketKind::ready;
  return send_wire(socket, ready);
}

Result<void> AnnouncedSlabs::announce(std::uint32_t slab) {
  if (announced_.contains(slab)) return {};
  const std::lock_guard lock(mutex_);
  GANTRY_TRY(drop_the_gone());
  if (socket_ >= 0) GANTRY_TRY(send_slab(socket_, slab));
  announced_.insert(slab);
  return {};
}

// Nothing for a slab that went in the meantime: no message can lie in it.
Result<void> AnnouncedSlabs::send_slab(int socket, std::uint32_t slab) const {
  const auto region = pool_.slab(slab);
  if (region == nullptr) return {};
  WirePacket packet;
  packet.kind = PacketKind::slab;
  packet.slab = slab;
  packet.bytes = region->size();
  const int descriptor = region->descriptor();
  return send_wire(socket, packet, std::span(&descriptor, 1));
}

Result<void> AnnouncedSlabs::drop_the_gone() {
  Result<void> sent;
  std::erase_if(announced_, [&](std::uint32_t slab) {
    if (pool_.slab(slab) != nullptr) return false;
    WirePacket packet;
    packet.kind = PacketKind::slab_gone;
    packet.slab = slab;
    if (socket_ >= 0 && sent) sent = send_wire(socket_, packet);
    return true;
  });
  return sent;
}

}  // namespace gantry
