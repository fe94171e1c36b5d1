#include "channel/producer/send_operation.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/clock.hpp"
#include "base/memfd.hpp"
#include "channel/producer/mode_choice.hpp"
#include "channel/wire/draft_checks.hpp"
#include "channel/wire/step.hpp"

namespace gantry {
namespace {

std::optional<detail::RegionSlice> slice_of(const Draft::Part& part) {
  if (!part.forwarded || part.forwarded->owner() == nullptr) return std::nullopt;
  return part.forwarded->owner()->where(part.forwarded->token(), part.bytes);
}

/// False: the message was released, so its bytes may be unmapped, or another message's.
bool is_held(const Draft::Part& part) noexcept {
  const Message& whole = *part.forwarded;
  if (whole.owner() != nullptr) return true;
  for (std::size_t i = 0; i < whole.segments(); ++i) {
    const ConstByteSpan bytes = whole.segment(i).bytes;
    if (bytes.data() == part.bytes.data() && bytes.size() == part.bytes.size()) return true;
  }
  return false;
}

}  // namespace

CacheUse CacheUses::of(const Lane& lane, Bytes bytes) {
  CacheUse& use = uses_[static_cast<std::size_t>(std::bit_width(bytes))];
  if (use == CacheUse::automatic) {
    Move move;  // at no particular memory
    move.bytes = bytes;
    // A wish: the message may be published already, so missing memory must not end the copy.
    use = guarded([&]() -> Result<CacheUse> {
            return lane.explain(move, SubmitMode::synchronous).cache;
          }).value_or(CacheUse::automatic);
  }
  return use;
}

Result<void> SendOperation::run() {
  const SendMode asked = options_.mode == SendMode::automatic ? core_.options.mode : options_.mode;
  GANTRY_TRY(named(check_mode(asked)));
  GANTRY_TRY(look_at_parts(asked == SendMode::immutable));
  mode_ = mode_for({options_.mode, core_.options.mode, packed_, parts_.size() != 1});
  choose_chunks();
  const std::uint64_t began = trace::is_on() ? read_ticks() : 0;
  Lock held = core_.lock();
  const auto result = with_slot(
      held, [&] { return is_chunked() ? publish_then_copy(held) : copy_then_publish(held); });
  if (slot_ == nullptr) return result;
  if (message_.header.number != 0) {
    GANTRY_PROBE(send, core_.name.c_str(), message_.header.number, total_);
    if (began != 0) [[unlikely]]
      core_.trace.sent(began, read_ticks(), message_.header.number, total_);
  }
  finish();
  GANTRY_STEP(sender_done);
  return result;
}

Result<Slot*> SendOperation::run_early() {
  const SendMode asked = options_.mode == SendMode::automatic ? core_.options.mode : options_.mode;
  GANTRY_TRY(named(check_mode(asked)));
  GANTRY_TRY(look_at_parts(asked == SendMode::immutable));
  const auto is_forwarded = [](const Draft::Part& part) { return part.forwarded != nullptr; };
  if (packed_ != 0 || std::ranges::any_of(parts_, is_forwarded))
    return tl::unexpected(
        core_.named({Code::invalid_argument, "only blocks of its pool can be sent early",
                     "allocate them from Producer::pool(): Draft::move()"}));
  mode_ = SendMode::pipelined;
  Lock held = core_.lock();
  const auto result = with_slot(held, [&]() -> Result<void> {
    publish_landing();
    return {};
  });
  if (result) return slot_;
  if (slot_ != nullptr) finish();
  return tl::unexpected(result.error());
}

Result<void> SendOperation::take_slot(Lock& held) {
  if (lent_slot_ == nullptr) {
    GANTRY_ASSIGN(slot_, gate_.await_slot(held, total_, options_.deadline, lent_));
    return {};
  }
  GANTRY_TRY(gate_.check_consumers());
  slot_ = lent_slot_;
  source_ = std::move(slot_->block);
  slot_->slabs.clear();
  slot_->bytes = total_;
  slot_->is_lent = false;
  return {};
}

template <class Rest>
Result<void> SendOperation::with_slot(Lock& held, Rest rest) {
  GANTRY_TRY(take_slot(held));
  // Without heap, too, the slot goes back.
  auto result = guarded([&]() -> Result<void> {
    if (!has_memory()) {
      held.unlock();
      GANTRY_TRY(take_memory());
      held.lock();
      slot_->sealed = std::move(sealed_);  // others look under the lock at what is lent
    }
    GANTRY_STEP(memory_taken);
    GANTRY_TRY(place_parts(held));
    return rest();
  });
  if (!held.owns_lock()) held.lock();
  return result;
}

// ---- what it is ----------------------------------------------------------------------------

Result<void> SendOperation::look_at_parts(bool immutable) {
  GANTRY_TRY(named(check_segments(parts_.size())));
  for (Draft::Part& part : parts_) {
    if (part.forwarded && !is_held(part))
      return tl::unexpected(core_.named(
          {Code::invalid_argument,
           fmt::format("a forwarded message of {} bytes was released before it was sent",
                       part.bytes.size()),
           "forward a message that is still held"}));
    // Private to this process, or to be out of everybody's reach.
    if (part.forwarded && (immutable || !slice_of(part))) part.copied = part.bytes;
    if (part.moved && immutable)
      return tl::unexpected(core_.named(
          {Code::invalid_argument, "a block of the pool cannot be immutable: it stays writable",
           "send a copy: Draft::copy()"}));
    if (part.moved) GANTRY_TRY(check_block(part));
    if (part.tensor && !part.tensor->fits(part.bytes.size()))
      return tl::unexpected(core_.named(
          {Code::invalid_argument,
           fmt::format("a tensor that does not fit its segment of {} bytes", part.bytes.size()),
           ""}));
    total_ += size_of(part);
    if (!is_copied(part)) continue;
    packed_ = round_up(packed_, Pool::kLineAlignment) + size_of(part);
    copied_ += size_of(part);
  }
  return {};
}

Result<void> SendOperation::check_block(const Draft::Part& part) const {
  if (!core_.pool.owns(part.block))
    return tl::unexpected(
        core_.named({Code::invalid_argument, "that block is empty or of another pool",
                     "allocate it from Producer::pool(), or send a copy"}));
  return named(check_block_size(part));
}

Result<void> SendOperation::named(Result<void> checked) const {
  if (checked) return checked;
  return tl::unexpected(core_.named(std::move(checked).error()));
}

// Asks whether all consumers block only where it matters.
SendMode SendOperation::mode_for(ModeQuestion question) const {
  const SendMode mode = choose_mode(question);
  if (mode != SendMode::streamed) return mode;
  const ProducerCore::Lock held = core_.lock();
  question.all_block = core_.consumers->all_block();
  return choose_mode(question);
}

void SendOperation::choose_chunks() noexcept {
  if (!is_chunked()) return;
  chunk_bytes_ = chunk_of(total_);
  if (mode_ == SendMode::streamed) window_bytes_ = window_of(total_);
}

// ---- memory --------------------------------------------------------------------------------

// What its slot kept will do: there is nothing to wait for.
bool SendOperation::has_memory() noexcept {
  return mode_ != SendMode::immutable && !needs_table() &&
         (packed_ == 0 || PayloadAllocator::reuse(*slot_, memory_bytes()));
}

Result<void> SendOperation::take_memory() {
  if (mode_ == SendMode::immutable) {
    GANTRY_ASSIGN(sealed_, copy_sealed());
  } else if (packed_ > 0) {
    GANTRY_TRY(memory_.fill(*slot_, memory_bytes(), options_.deadline, lent_));
  }
  if (!needs_table()) return {};
  GANTRY_ASSIGN(slot_->table,
                memory_.allocate(parts_.size() * sizeof(SegmentEntry), options_.deadline, lent_));
  return {};
}

Result<void> SendOperation::place_parts(Lock& held) {
  std::vector<Place> places;
  Bytes packed_at = 0;
  for (Draft::Part& part : parts_) {
    if (is_copied(part)) packed_at = round_up(packed_at, Pool::kLineAlignment);
    GANTRY_ASSIGN(const Place place, place_of(part, packed_at));
    if (is_copied(part)) packed_at += size_of(part);
    if (place.bytes != 0) slot_->slabs.push_back(place.slab);
    if (!needs_table()) {
      message_ = record_for(options_, PayloadLocation::block, 1);
      message_.place = place;
      return gate_.announce(held, *slot_, options_.deadline);
    }
    places.push_back(place);
  }
  write_table(places);
  message_ = record_for(options_, PayloadLocation::table, static_cast<std::uint8_t>(parts_.size()));
  message_.place.offset = slot_->table.offset();
  message_.place.bytes = parts_.size() * sizeof(SegmentEntry);
  if (mode_ == SendMode::streamed) {
    message_.place.bytes = total_;
    message_.place.chunk_bytes = static_cast<std::uint32_t>(chunk_bytes_);
    message_.place.window_bytes = window_bytes_;
  }
  message_.place.slab = slot_->table.slab();
  slot_->slabs.push_back(message_.place.slab);
  return gate_.announce(held, *slot_, options_.deadline);
}

Result<Place> SendOperation::place_of(Draft::Part& part, Bytes packed_at) {
  Place place{};
  place.bytes = size_of(part);
  if (part.block) {
    place.offset = part.block.offset();
    place.slab = part.block.slab();
    slot_->moved.push_back(std::move(part.block));
  } else if (const auto slice = is_copied(part) ? std::nullopt : slice_of(part); slice) {
    place.offset = slice->offset;
    place.slab = core_.consumers->slabs().adopt(slice->region, slice->inherited);
    slot_->forwarded.push_back(part.forwarded);
  } else if (slot_->sealed) {
    place.offset = packed_at;
    place.slab = core_.consumers->slabs().adopt(slot_->sealed, nullptr);
  } else if (slot_->block) {
    place.offset = slot_->block.offset() + packed_at;
    place.slab = slot_->block.slab();
    place.chunk_bytes = static_cast<std::uint32_t>(chunk_bytes_);
    place.window_bytes = window_bytes_;
  }
  return place;
}

void SendOperation::write_table(std::span<const Place> places) {
  std::byte* at = slot_->table.bytes().data();
  for (std::size_t i = 0; i < places.size(); ++i, at += sizeof(SegmentEntry)) {
    SegmentEntry entry{};
    entry.offset = places[i].offset;
    entry.bytes = places[i].bytes;
    entry.slab = places[i].slab;
    entry.dimensions = kNoTensor;
    if (const auto tensor = tensor_of(parts_[i])) {
      entry.type = tensor->type;
      entry.dimensions = tensor->dimensions;
      entry.shape = tensor->shape;
      entry.strides = tensor->strides;
    }
    std::memcpy(at, &entry, sizeof entry);
  }
  GANTRY_STEP(table_written);
}

// ---- the two orders ------------------------------------------------------------------------

Result<void> SendOperation::copy_then_publish(Lock& held) {
  held.unlock();
  GANTRY_STEP(parts_placed);
  GANTRY_TRY(copy_parts());
  GANTRY_STEP(copied);
  held.lock();
  publish();
  return {};
}

Result<void> SendOperation::publish_then_copy(Lock& held) {
  publish_landing();
  held.unlock();
  auto copied = guarded([this] { return copy_parts(); });
  if (!copied) abort();
  return copied;
}

void SendOperation::publish_landing() {
  message_.header.kind |= kLanding;
  if (mode_ == SendMode::streamed) message_.header.kind |= kStreamed;
  const auto index = core_.consumers->slots().index_of(*slot_);
  core_.page().landing[index].begin(core_.consumers->published() + 1);
  GANTRY_STEP(landing_cleared);
  publish();
}

void SendOperation::publish() {
  core_.consumers->publish(message_, slot_);
  core_.counters->message(total_);
  GANTRY_PROBE(publish, core_.name.c_str(), message_.header.number, total_);
  if (trace::is_on()) [[unlikely]]
    core_.trace.note(trace::EventKind::publish, message_.header.number);
  GANTRY_STEP(message_published);
}

void SendOperation::landed(Bytes bytes) {
  landed_ += bytes;
  const ProducerCore::Lock held = core_.lock();
  core_.tell_landed(*slot_, landed_);
  GANTRY_STEP(landed_stored);
  core_.consumers->wake_holders(*slot_);
}

void SendOperation::abort() noexcept {
  const ProducerCore::Lock held = core_.lock();
  core_.tell_landed(*slot_, landed_ | LandingWord::kAborted);
  core_.consumers->wake_holders(*slot_);
  GANTRY_STEP(message_aborted);
}

void SendOperation::finish() {
  if (last_copy_.payload != 0) core_.last_copy = last_copy_;
  SlotTable& slots = core_.consumers->slots();
  if (copy_ticks_ != 0 && slots.keeps() && core_.rotation.took(packed_, copy_ticks_))
    slots.drop_spares(core_.rotation.most_places());
  const bool passed_on = !slot_->forwarded.empty();
  core_.consumers->release(*slot_);
  if (passed_on) gate_.heed_forwards();
}

}  // namespace gantry
