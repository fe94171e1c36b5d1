#include "core/channel/consumer/received_payloads.hpp"

#include <algorithm>

#include "core/base/clock.hpp"
#include "core/base/os/memfd.hpp"

namespace gantry {

// ---- slots -----------------------------------------------------------------------------------

std::vector<HeldSlot> HeldSlots::list(double ns_per_tick) const {
  std::vector<HeldSlot> held;
  const std::uint64_t now = read_ticks();
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!is_held(slot)) continue;
    const Slot& one = slots_[slot];
    const auto age = static_cast<double>(now - std::min(now, one.ticks)) * ns_per_tick;
    held.push_back(
        {one.number, one.bytes, std::chrono::nanoseconds(static_cast<std::int64_t>(age)), true});
  }
  std::ranges::sort(held, {}, &HeldSlot::message);
  return held;
}

// ---- slabs -----------------------------------------------------------------------------------

Result<void> ReceivedPayloads::learn(Received& received) {
  GANTRY_TRY(slabs_.learn(received));
  confirm_heard();
  return {};
}

// The producer may be dead and its last packets still to be read.
void ReceivedPayloads::hear() {
  const auto heard = slabs_.hear(core_.connection.receive_fd(), Deadline::now());
  confirm_heard();
  if (heard || heard.error().code == Code::timed_out) return;
  if (heard.error().code == Code::peer_gone)
    core_.note_producer_gone();
  else
    static_cast<void>(core_.break_stream(heard.error()));  // the next look tells it
}

// It is sent before the first message that speaks of it. Of other errors the look for that tells.
Result<ReceivedFd> ReceivedPayloads::take_control_end() {
  const auto heard = slabs_.hear(core_.connection.receive_fd(), Deadline::now());
  confirm_heard();
  if (!heard && is_own_trouble(heard.error().code)) return tl::unexpected(heard.error());
  return slabs_.take_control_end();
}

// What was dropped is unmapped by now: a producer that waits for its memory has it.
void ReceivedPayloads::confirm_heard() noexcept {
  std::atomic<std::uint64_t>& heard = core_.own_page().heard;
  // Relaxed: this thread alone writes it.
  if (heard.load(std::memory_order_relaxed) == slabs_.heard()) return;
  heard.store(slabs_.heard(), std::memory_order_seq_cst);  // [K]
  core_.ring_producer();
}

// ---- messages --------------------------------------------------------------------------------

// Where it is mapped, its pages present. From here on found_ keeps the slab mapped: looking for the
// next one may hear anything.
Result<ConstByteSpan> ReceivedPayloads::find_bytes(std::uint32_t number, Bytes offset,
                                                   Bytes bytes) {
  if (bytes == 0) return ConstByteSpan();
  // It was announced before it was used: what is not in the socket by now nobody waits for.
  const auto found = slabs_.find(number, core_.connection.receive_fd(), Deadline::now());
  confirm_heard();
  if (!found) return tl::unexpected(found.error());
  ReceivedSlab& slab = **found;
  const Bytes size = slab.region->size();
  if (offset > size || bytes > size - offset)
    return fail(Code::peer_misbehaved,
                fmt::format("a message of {} bytes at {} in a slab of {}", bytes, offset, size));
  found_.add(slab);
  GANTRY_TRY(slabs_.make_present(slab, offset, bytes));
  return ConstByteSpan(slab.region->data() + offset, bytes);
}

// Of a streamed message with a tensor.
Result<std::vector<Segment>> ReceivedPayloads::find_window(const Place& place) {
  GANTRY_ASSIGN(const ConstByteSpan table,
                find_bytes(place.slab, place.offset, sizeof(SegmentEntry)));
  GANTRY_ASSIGN(const std::vector<SegmentEntry> entries, read_table(table));
  const SegmentEntry& entry = entries.front();
  if (entry.bytes != place.bytes)
    return fail(Code::peer_misbehaved,
                fmt::format("a segment of {} bytes in a message of {}; they must be equal",
                            entry.bytes, place.bytes));
  GANTRY_ASSIGN(const ConstByteSpan window,
                find_bytes(entry.slab, entry.offset, place.window_bytes));
  GANTRY_ASSIGN(const auto tensor, tensor_of(entry));
  return std::vector<Segment>{{window, tensor}};
}

Result<std::vector<Segment>> ReceivedPayloads::find_segments(const ReceivedRecord& received) {
  found_.clear();
  const Place& place = received.place;
  const Bytes mapped = received.is_streamed() ? place.window_bytes : place.bytes;
  if (received.is_streamed() && received.lies() == PayloadLocation::table)
    return find_window(place);
  GANTRY_ASSIGN(const ConstByteSpan bytes, find_bytes(place.slab, place.offset, mapped));
  if (received.lies() == PayloadLocation::block) return std::vector<Segment>{{bytes, {}}};
  GANTRY_ASSIGN(const std::vector<SegmentEntry> entries, read_table(bytes));
  std::vector<Segment> segments;
  for (const SegmentEntry& entry : entries) {
    GANTRY_ASSIGN(const ConstByteSpan segment, find_bytes(entry.slab, entry.offset, entry.bytes));
    GANTRY_ASSIGN(const auto tensor, tensor_of(entry));
    segments.push_back({segment, tensor});
  }
  return segments;
}

Result<std::vector<Segment>> ReceivedPayloads::hold(const ReceivedRecord& received) {
  auto segments = find_segments(received);
  if (!segments) return tl::unexpected(core_.break_stream(segments.error()));
  Bytes bytes = 0;
  for (const Segment& segment : *segments) bytes += segment.bytes.size();
  GANTRY_TRY(hold_found(received, bytes));
  return segments;
}

Result<ConstByteSpan> ReceivedPayloads::hold_block(const ReceivedRecord& received) {
  found_.clear();
  auto bytes = find_bytes(received.place.slab, received.place.offset, received.place.bytes);
  if (!bytes) return tl::unexpected(core_.break_stream(bytes.error()));
  GANTRY_TRY(hold_found(received, bytes->size()));
  return bytes;
}

Result<void> ReceivedPayloads::hold_found(const ReceivedRecord& received, Bytes bytes) {
  GANTRY_STEP(segments_found);
  if (held_.is_held(received.header.slot))
    return tl::unexpected(core_.misbehaved(fmt::format(
        "message {} in slot {} while it is held", received.header.number, received.header.slot)));
  held_.hold(received.header.slot, found_.slabs(), received.header.number, bytes,
             received.header.ticks);
  found_.clear();
  GANTRY_STEP(slot_held);
  return {};
}

void ReceivedPayloads::pass_chunks(std::uint16_t slot, std::uint64_t number,
                                   std::uint64_t chunks) noexcept {
  if (!core_.fork_guard.is_this()) return;  // a fork's copy
  core_.own_page().passed[slot].store(passed_word(number, chunks),
                                      std::memory_order_seq_cst);  // [C]
  GANTRY_STEP(passed_stored);
  core_.ring_producer();
}

void ReceivedPayloads::give_back(std::uint64_t token) noexcept {
  if (!core_.fork_guard.is_this()) return;  // a fork's copy: the parent still reads it
  const auto slot = static_cast<std::size_t>(token >> kNumberBits);
  held_.drop(slot);
  const std::uint64_t number = token & ((std::uint64_t{1} << kNumberBits) - 1);
  core_.own_page().released.release(slot, number);
  GANTRY_STEP(released_stored);
  GANTRY_PROBE(release, core_.name.c_str(), number);
  if (trace::is_on()) [[unlikely]]
    core_.trace.note(trace::EventKind::release, number);
  core_.ring_producer();
}

std::optional<detail::RegionSlice> ReceivedPayloads::where(std::uint64_t token,
                                                           ConstByteSpan bytes) const {
  if (!core_.fork_guard.is_this()) return std::nullopt;
  auto slice = held_.where(static_cast<std::size_t>(token >> kNumberBits), bytes);
  if (!slice) return std::nullopt;
  slice->inherited = detail::inherit(core_.producer_wake, std::move(slice->inherited));
  if (slice->inherited == nullptr) return std::nullopt;  // from hand to hand too often: a copy
  return slice;
}

Result<std::optional<DeviceKey>> ReceivedPayloads::key_for(std::uint64_t token, ConstByteSpan bytes,
                                                           const Registrar& registrar) const {
  GANTRY_TRY(core_.check_process());
  const ReceivedSlab* const slab =
      held_.slab_of(static_cast<std::size_t>(token >> kNumberBits), bytes);
  if (bytes.empty() || slab == nullptr) return std::nullopt;
  auto key = slab->registrations.key_for(registrar);
  if (!key) return prefixed(std::move(key).error(), "channel '{}'", core_.name);
  key->offset += static_cast<Bytes>(bytes.data() - slab->region->data());
  return *key;
}

bool ReceivedPayloads::is_immutable(std::uint64_t token, ConstByteSpan bytes) const {
  if (bytes.empty()) return true;
  const auto slice = held_.where(static_cast<std::size_t>(token >> kNumberBits), bytes);
  return core_.fork_guard.is_this() && slice &&
         check_sealed(slice->region->descriptor(), F_SEAL_WRITE);
}

}  // namespace gantry
