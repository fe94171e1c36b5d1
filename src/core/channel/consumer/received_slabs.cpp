#include "core/channel/consumer/received_slabs.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/os/holes.hpp"
#include "core/base/result.hpp"
#include "core/base/sizes.hpp"
#include "core/channel/wire/step.hpp"

namespace gantry {
namespace {

// Of packets heard at once: who sends them without end is not listened to without end.
constexpr int kMaxPackets = 1024;
constexpr int kMaxTimes = 16;
// Mapping takes the kernel some 60 us a MiB in pages of 4 KiB.
constexpr Bytes kMostMappedAhead = Bytes{64} << 20;

tl::unexpected<Error> unexpected_packet(const Received& received) {
  return fail(Code::peer_misbehaved,
              fmt::format("an unexpected packet: kind {} with {} descriptors; slabs, or once a "
                          "control connection, are allowed",
                          static_cast<std::uint32_t>(received.packet.kind), received.fds.size()));
}

}  // namespace

// ---- what registrars know of a slab -----------------------------------------------------------

Result<void> SlabRegistrations::check(Registrars registrars, std::string_view end) {
  const auto refuse = [&](const char* what) {
    return fail(Code::invalid_argument, fmt::format("{}: {}", end, what));
  };
  if (registrars.size() > Pool::kMaxRegistrars) return refuse("more than 8 registrars");
  for (const auto& registrar : registrars) {
    if (registrar == nullptr) return refuse("an empty registrar");
    if (std::ranges::count(registrars, registrar) != 1) return refuse("the same registrar twice");
  }
  return {};
}

void SlabRegistrations::make(const Region& slab, Registrars registrars, SenderQuota& quota) {
  std::vector<Entry> entries(registrars.size());
  auto charge = quota.take(Expense::registered_bytes, slab.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    Entry& entry = entries[i];
    entry.registrar = registrars[i].get();
    if (!charge) {
      entry.refusal = charge.error();
      continue;
    }
    auto made = registrars[i]->register_fresh({slab.data(), slab.size()}, DeviceAccess::read);
    if (made)
      entry.registration = std::move(*made);
    else
      entry.refusal = std::move(made).error();
  }
  if (charge) charge_ = std::move(*charge);
  entries_ = std::move(entries);
}

Result<DeviceKey> SlabRegistrations::key_for(const Registrar& registrar) const {
  for (const Entry& entry : entries_) {
    if (entry.registrar != &registrar) continue;
    if (!entry.registration) return tl::unexpected(entry.refusal);
    return entry.registration.key();
  }
  return fail(Code::invalid_argument,
              fmt::format("registrar '{}' is not one of this consumer's", registrar.name()),
              "name it in ConsumerOptions::registrars");
}

void SlabRegistrations::add_to(std::span<ReceivedRegistration> told) const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.registration) {
      told[i].slabs += 1;
      told[i].bytes += entry.registration.memory().size();
    } else {
      told[i].refused += 1;
      told[i].why = to_string(entry.refusal);
    }
  }
}

// ---- what a message needs ------------------------------------------------------------------

void PinnedSlabs::add(ReceivedSlab& slab) {
  if (std::find(slabs_.begin(), slabs_.end(), &slab) != slabs_.end()) return;
  slabs_.push_back(&slab);
  slab.hold();
}

void PinnedSlabs::clear() noexcept {
  for (ReceivedSlab* slab : slabs_) slab->let_go();
  slabs_.clear();
}

// I3. From the first page that is missing to the last one.
Result<void> ReceivedSlabs::make_present(ReceivedSlab& slab, Bytes offset, Bytes size) {
  GANTRY_DEBUG_ASSERT(offset + size <= slab.region->size());
  const Bytes end = (offset + size + kSmallestPage - 1) / kSmallestPage;
  const Bytes missing = slab.present.first_missing(offset / kSmallestPage, end);
  if (missing == end) return {};
  const Bytes from = missing * kSmallestPage;
  const Bytes bytes = std::min(end * kSmallestPage, slab.region->size()) - from;
  holes_ += holes_in(slab.region->descriptor(), from, bytes);
  if (holes_ > kMostHoles)
    return fail(Code::peer_misbehaved,
                fmt::format("{} bytes of messages in memory that it never wrote; at most {} are "
                            "allowed",
                            holes_, kMostHoles));
  // More is mapped as it is read, which takes no longer in all and lets the reader begin.
  if (bytes <= kMostMappedAhead) GANTRY_TRY(slab.region->touch(from, bytes));
  // Here, where a slab's first message comes by: others of it pass without a look.
  if (!registrars_.empty() && !slab.registrations.are_made())
    slab.registrations.make(*slab.region, registrars_, *quota_);
  slab.present.add(missing, end);
  return {};
}

// ---- pages ---------------------------------------------------------------------------------

// Those of [first, end) that are in the word of `first`.
std::uint64_t PageSet::bits_of(Bytes first, Bytes end) noexcept {
  const std::uint64_t from = ~std::uint64_t{0} << (first % kBits);
  return end >= next_word(first) ? from : from & ((std::uint64_t{1} << (end % kBits)) - 1);
}

Bytes PageSet::first_missing(Bytes first, Bytes end) const noexcept {
  for (Bytes page = first; page < end; page = next_word(page)) {
    const auto chunk = chunks_.find(page / kBits / kWords);
    const std::uint64_t there = chunk == chunks_.end() ? 0 : chunk->second[page / kBits % kWords];
    if (const std::uint64_t missing = ~there & bits_of(page, end); missing != 0)
      return page / kBits * kBits + static_cast<Bytes>(std::countr_zero(missing));
  }
  return end;
}

void PageSet::add(Bytes first, Bytes end) {
  for (Bytes page = first; page < end; page = next_word(page))
    chunks_[page / kBits / kWords][page / kBits % kWords] |= bits_of(page, end);
}

// ---- the socket ----------------------------------------------------------------------------

Result<ReceivedSlab*> ReceivedSlabs::find(std::uint32_t number, int socket, Deadline deadline) {
  for (int times = 0; times < kMaxTimes; ++times) {
    const auto found = slabs_.find(number);
    if (found != slabs_.end()) return &found->second;
    const auto heard = hear(socket, deadline);
    if (heard) continue;
    const Code code = heard.error().code;
    if (code == Code::timed_out || code == Code::peer_gone)
      return fail(Code::peer_misbehaved,
                  fmt::format("a message in slab {}, memory it never sent", number));
    return tl::unexpected(heard.error());
  }
  return fail(Code::peer_misbehaved,
              fmt::format("a message in slab {}, which {} times {} packets did not bring", number,
                          kMaxTimes, kMaxPackets));
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
  if (packet.kind == PacketKind::control) {
    if (received.fds.size() != 1 || std::exchange(control_came_, true))
      return unexpected_packet(received);
    control_end_ = std::move(received.fds[0]);
    return {};
  }
  if (packet.kind == PacketKind::slab && !received.fds.empty()) {
    GANTRY_TRY(learn_one(received));
  } else if (packet.kind == PacketKind::slabs) {
    GANTRY_TRY(learn_slabs(received));
  } else if (packet.kind == PacketKind::slab_gone && received.fds.empty()) {
    GANTRY_TRY(drop(packet.slab));
  } else {
    return unexpected_packet(received);
  }
  ++heard_;
  return {};
}

// I2: what it costs is taken before it is mapped, and goes back with whatever is not.
// With somebody else's memory come the wake-up senders of those who lent it.
Result<void> ReceivedSlabs::learn_one(Received& received) {
  ReceivedFds& fds = received.fds;
  if (fds.size() > 1 + detail::Inheritance::kMost) return unexpected_packet(received);
  std::shared_ptr<const detail::Inheritance> inherited;
  for (std::size_t i = fds.size(); i-- > 1;) {
    GANTRY_ASSIGN(WakeSender sender, WakeSender::adopt(std::move(fds[i])));
    inherited = detail::inherit(std::make_shared<const WakeSender>(std::move(sender)),
                                std::move(inherited));
  }
  return learn_slab(received.packet.slab, fds[0], received.packet.bytes, std::move(inherited));
}

Result<void> ReceivedSlabs::learn_slab(std::uint32_t number, Fd& memory, Bytes size,
                                       std::shared_ptr<const detail::Inheritance> inherited) {
  if (slabs_.contains(number))
    return fail(Code::peer_misbehaved, fmt::format("it sent slab {} twice", number));
  const std::size_t descriptors = 1 + (inherited == nullptr ? 0 : inherited->length);
  GANTRY_ASSIGN(auto place, quota_->take(Expense::slabs, descriptors));
  GANTRY_ASSIGN(auto mapping, quota_->take(Expense::mapped_bytes, size));
  GANTRY_ASSIGN(Region region, Region::import(memory.release(), size));
  ReceivedSlab& slab = slabs_.try_emplace(number, std::move(region)).first->second;
  slab.place = std::move(place);
  slab.mapping = std::move(mapping);
  slab.inherited = std::move(inherited);
  GANTRY_STEP(slab_learned);
  return {};
}

// Their sizes are what their descriptors say: sealed, they stay so.
Result<void> ReceivedSlabs::learn_slabs(Received& received) {
  std::array<std::uint32_t, kMaxPacketFds> numbers{};
  std::memcpy(numbers.data(), received.packet.token.data(), sizeof numbers);
  if (received.fds.empty() || received.fds.size() > numbers.size())
    return unexpected_packet(received);
  for (std::size_t i = 0; i < received.fds.size(); ++i) {
    struct stat facts{};
    if (::fstat(received.fds[i].get(), &facts) != 0) return fail_errno("fstat");
    if (facts.st_size <= 0)
      return fail(Code::peer_misbehaved, fmt::format("slab {} has no bytes", numbers[i]));
    GANTRY_TRY(learn_slab(numbers[i], received.fds[i], static_cast<Bytes>(facts.st_size)));
  }
  return {};
}

// I1. Honest producers drop a slab when all of it came back.
Result<void> ReceivedSlabs::drop(std::uint32_t number) {
  const auto found = slabs_.find(number);
  if (found == slabs_.end())
    return fail(Code::peer_misbehaved,
                fmt::format("it dropped slab {}, which it never sent", number));
  const unsigned held = found->second.held.load(std::memory_order_acquire);  // [U]
  if (held != 0)
    return fail(
        Code::peer_misbehaved,
        fmt::format("it dropped slab {}, memory that is in use by {} messages", number, held));
  slabs_.erase(found);
  return {};
}

Bytes ReceivedSlabs::mapped_bytes() const noexcept {
  Bytes sum = 0;
  for (const auto& [number, slab] : slabs_) sum += slab.region->size();
  return sum;
}

std::vector<ReceivedRegistration> ReceivedSlabs::registrations() const {
  std::vector<ReceivedRegistration> told;
  for (const auto& registrar : registrars_) told.emplace_back().registrar = registrar->name();
  for (const auto& [number, slab] : slabs_) slab.registrations.add_to(told);
  return told;
}

}  // namespace gantry
