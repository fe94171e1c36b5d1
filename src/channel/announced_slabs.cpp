#include "channel/announced_slabs.hpp"

#include <algorithm>

#include "channel/protocol.hpp"
#include "channel/step.hpp"

namespace gantry {

Result<void> AnnouncedSlabs::introduce(int socket) const {
  for (const std::uint32_t slab : announced_)
    if (!tell(socket, slab))
      return fail(Code::peer_gone, "the consumer left before it knew the memory");
  return {};
}

Result<std::vector<int>> AnnouncedSlabs::announce(std::uint32_t slab,
                                                  std::span<const int> sockets) {
  std::vector<int> deaf;
  if (announced_.contains(slab)) return deaf;
  drop_the_gone(sockets);
  std::copy_if(sockets.begin(), sockets.end(), std::back_inserter(deaf),
               [&](int socket) { return !tell(socket, slab); });
  announced_.insert(slab);
  GANTRY_STEP(slab_announced);
  return deaf;
}

std::shared_ptr<const Region> AnnouncedSlabs::region_of(std::uint32_t slab) const {
  if ((slab & kForeign) == 0) return pool_.slab(slab);
  const auto found = foreign_.find(slab);
  return found == foreign_.end() ? nullptr : found->second.lock();
}

// Nothing for a slab that went in the meantime: no message can lie in it.
bool AnnouncedSlabs::tell(int socket, std::uint32_t slab) const {
  const auto region = region_of(slab);
  if (region == nullptr) return true;
  WirePacket packet;
  packet.kind = PacketKind::slab;
  packet.slab = slab;
  packet.bytes = region->size();
  const int descriptor = region->descriptor();
  return send_wire(socket, packet, std::span(&descriptor, 1)).has_value();
}

// One that cannot be told that memory went keeps its mapping of it, and nothing else.
void AnnouncedSlabs::drop_the_gone(std::span<const int> sockets) {
  std::erase_if(announced_, [&](std::uint32_t slab) {
    if (region_of(slab) != nullptr) return false;
    WirePacket packet;
    packet.kind = PacketKind::slab_gone;
    packet.slab = slab;
    for (const int socket : sockets) static_cast<void>(send_wire(socket, packet));
    return true;
  });
  std::erase_if(foreign_, [](const auto& entry) { return entry.second.expired(); });
}

std::uint32_t AnnouncedSlabs::adopt(const std::shared_ptr<const Region>& region) {
  for (const auto& [number, foreign] : foreign_)
    if (foreign.lock() == region) return number;
  const std::uint32_t number = next_foreign_;
  next_foreign_ = (next_foreign_ + 1) | kForeign;
  foreign_[number] = region;
  return number;
}

}  // namespace gantry
