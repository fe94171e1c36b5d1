#include "core/channel/fan_out/announced_slabs.hpp"

#include <algorithm>
#include <cstring>

#include "core/channel/fan_out/slot_table.hpp"
#include "core/channel/wire/step.hpp"

namespace gantry {
namespace {

constexpr std::uint64_t bit_of(unsigned consumer) noexcept {
  return std::uint64_t{1} << consumer;
}

tl::unexpected<Error> no_room() {
  return fail(Code::out_of_memory, "no room for the descriptors of its memory on their way",
              "raise the limit of open files (ulimit -n), or have fewer slabs: "
              "PoolOptions::slab_bytes");
}

}  // namespace

// ---- consumers come and go -----------------------------------------------------------------

void AnnouncedSlabs::add(unsigned consumer, int socket) {
  remove(consumer);
  told_[consumer].farewells.reserve(kMostUnheard);
  told_[consumer].socket = socket;
}

void AnnouncedSlabs::remove(unsigned consumer) noexcept {
  told_[consumer] = Told();
  for (auto slab = slabs_.begin(); slab != slabs_.end();) {
    slab->second.known &= ~bit_of(consumer);
    slab->second.leaving &= ~bit_of(consumer);
    slab = slab->second.is_let_go() ? forget(slab) : std::next(slab);
  }
}

// A few slabs are sent one by one, as later ones are; of many there are several in a packet.
Result<void> AnnouncedSlabs::introduce(unsigned consumer, std::span<const std::uint32_t> slabs) {
  std::vector<std::uint32_t> unknown(slabs.begin(), slabs.end());
  std::sort(unknown.begin(), unknown.end());
  unknown.erase(std::unique(unknown.begin(), unknown.end()), unknown.end());
  const std::size_t batch = unknown.size() <= kMostUnheard ? 1 : kMaxPacketFds;
  const std::span all(unknown);
  const auto goes_alone = std::partition(unknown.begin(), unknown.end(),
                                         [this](std::uint32_t slab) { return !has_lenders(slab); });
  const auto together = static_cast<std::size_t>(goes_alone - unknown.begin());
  for (std::size_t at = 0; at < together; at += batch)
    GANTRY_TRY(tell_batch(consumer, all.subspan(at, std::min(batch, together - at))));
  for (std::size_t at = together; at < all.size(); ++at)
    GANTRY_TRY(tell_batch(consumer, all.subspan(at, 1)));
  return {};
}

bool AnnouncedSlabs::has_lenders(std::uint32_t slab) const noexcept {
  const auto found = slabs_.find(slab);
  return found != slabs_.end() && found->second.inherited != nullptr;
}

// Only a slab that goes in a packet of its own has any.
void AnnouncedSlabs::add_inherited(std::vector<int>& fds, const Announced& slab) {
  for (const auto* one = slab.inherited.get(); one != nullptr; one = one->of_lender.get())
    fds.push_back(one->sender->descriptor());
}

Result<void> AnnouncedSlabs::tell_batch(unsigned consumer, std::span<const std::uint32_t> slabs) {
  static_assert(kMaxPacketFds * sizeof(std::uint32_t) <= kTokenBytes);
  std::vector<std::shared_ptr<const Region>> regions;  // until they are sent
  std::vector<int> fds;
  WirePacket packet;
  packet.kind = slabs.size() == 1 ? PacketKind::slab : PacketKind::slabs;
  for (const std::uint32_t slab : slabs) {
    Announced* const announced = find_or_add(slab);
    auto region = announced == nullptr ? nullptr : announced->region.lock();
    if (region == nullptr) continue;  // no message can lie in it
    std::memcpy(packet.token.data() + fds.size() * sizeof slab, &slab, sizeof slab);
    packet.slab = slab;
    packet.bytes = region->size();
    fds.push_back(region->descriptor());
    add_inherited(fds, *announced);
    announced->known |= bit_of(consumer);
    regions.push_back(std::move(region));
  }
  if (fds.empty()) return {};
  switch (send(told_[consumer], packet, fds)) {
    case Sent::yes:
      return {};
    case Sent::gone:
      return fail(Code::peer_gone, "the consumer left before it knew the memory");
    default:
      return no_room();
  }
}

// ---- telling -------------------------------------------------------------------------------

std::uint64_t AnnouncedSlabs::who_know(std::span<const std::uint32_t> slabs) const noexcept {
  std::uint64_t consumers = ~std::uint64_t{0};
  for (const std::uint32_t slab : slabs) {
    const auto found = slabs_.find(slab);
    consumers &= found == slabs_.end() ? 0 : found->second.known;
  }
  return consumers;
}

Result<bool> AnnouncedSlabs::tell(unsigned consumer, std::span<const std::uint32_t> slabs) {
  for (const std::uint32_t slab : slabs) {
    GANTRY_ASSIGN(const bool told, tell_one(consumer, slab));
    if (!told) return false;
  }
  return true;
}

Result<bool> AnnouncedSlabs::tell_one(unsigned consumer, std::uint32_t slab) {
  Announced* const announced = find_or_add(slab);
  const auto region = announced == nullptr ? nullptr : announced->region.lock();
  if (region == nullptr || (announced->known & bit_of(consumer)) != 0) return true;
  Told& told = told_[consumer];
  if (!told.has_room()) return false;  // I3
  WirePacket packet;
  packet.kind = PacketKind::slab;
  packet.slab = slab;
  packet.bytes = region->size();
  std::vector<int> fds{region->descriptor()};
  add_inherited(fds, *announced);
  const Sent sent = send(told, packet, fds);
  if (sent == Sent::no_room) return no_room();
  if (sent == Sent::later) return false;
  announced->known |= bit_of(consumer);
  GANTRY_STEP(slab_announced);
  return true;
}

// Null: the slab is gone.
AnnouncedSlabs::Announced* AnnouncedSlabs::find_or_add(std::uint32_t slab) {
  const auto found = slabs_.find(slab);
  if (found != slabs_.end()) return &found->second;
  if ((slab & kForeign) != 0) return nullptr;
  drop_the_gone();  // other channels' slabs, too, since nobody reports when they go
  const auto region = pool_.slab(slab);
  if (region == nullptr) return nullptr;
  Announced& added = slabs_[slab];
  added.region = region;
  added.charge = pool_.charge(slab);
  return &added;
}

AnnouncedSlabs::Sent AnnouncedSlabs::send(Told& told, const WirePacket& packet,
                                          std::span<const int> fds) noexcept {
  const auto sent = send_wire(told.socket, packet, fds);
  if (sent) {
    ++told.sent;
    return Sent::yes;
  }
  if (sent.error().code == Code::peer_gone) return Sent::gone;
  return sent.error().code == Code::peer_misbehaved ? Sent::later : Sent::no_room;
}

std::uint32_t AnnouncedSlabs::adopt(const std::shared_ptr<const Region>& region,
                                    std::shared_ptr<const detail::Inheritance> inherited) {
  for (auto slab = slabs_.lower_bound(kForeign); slab != slabs_.end(); ++slab)
    if (slab->second.region.lock() == region) return slab->first;
  drop_the_gone();
  const std::uint32_t number = next_foreign_;
  next_foreign_ = (next_foreign_ + 1) | kForeign;
  slabs_[number].region = region;
  slabs_[number].inherited = std::move(inherited);
  return number;
}

// ---- slabs go ------------------------------------------------------------------------------

bool AnnouncedSlabs::heard(unsigned consumer, std::uint64_t packets) noexcept {
  Told& told = told_[consumer];
  if (packets < told.heard || packets > told.sent) return false;
  told.heard = packets;
  std::erase_if(told.farewells, [&](const Farewell& one) {
    if (one.packet > packets) return false;
    const auto slab = slabs_.find(one.slab);
    if (slab == slabs_.end()) return true;
    slab->second.leaving &= ~bit_of(consumer);
    if (slab->second.is_let_go()) forget(slab);
    return true;
  });
  return true;
}

void AnnouncedSlabs::drop_the_gone() noexcept {
  seen_drops_ = pool_.dropped_slabs();  // first: slabs dropped from here on are looked for again
  owes_farewells_ = false;
  for (auto slab = slabs_.begin(); slab != slabs_.end();) {
    if (slab->second.region.expired()) say_farewell(slab->first, slab->second);
    slab = slab->second.is_let_go() ? forget(slab) : std::next(slab);
  }
}

// I2
void AnnouncedSlabs::say_farewell(std::uint32_t number, Announced& slab) noexcept {
  WirePacket packet;
  packet.kind = PacketKind::slab_gone;
  packet.slab = number;
  for_each_bit(slab.known, [&](std::size_t consumer) {
    Told& told = told_[consumer];
    const Sent sent = told.has_room() ? send(told, packet) : Sent::later;
    if (sent == Sent::later || sent == Sent::no_room) {
      owes_farewells_ = true;
      return;
    }
    slab.known &= ~bit_of(static_cast<unsigned>(consumer));
    // for one that hung up: until remove()
    slab.leaving |= bit_of(static_cast<unsigned>(consumer));
    if (sent == Sent::yes) told.farewells.push_back({told.sent, number});
  });
}

AnnouncedSlabs::Slabs::iterator AnnouncedSlabs::forget(Slabs::iterator slab) noexcept {
  if (slab->second.charge != nullptr) ++returned_;
  return slabs_.erase(slab);
}

bool AnnouncedSlabs::awaits_return(std::uint64_t consumers) const noexcept {
  return std::any_of(slabs_.begin(), slabs_.end(), [consumers](const auto& entry) {
    const Announced& slab = entry.second;
    return slab.charge != nullptr && slab.region.expired() &&
           ((slab.known | slab.leaving) & consumers) != 0;
  });
}

}  // namespace gantry
