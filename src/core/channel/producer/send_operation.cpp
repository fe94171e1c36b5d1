#include "core/channel/producer/send_operation.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/clock.hpp"
#include "core/base/os/mapped.hpp"
#include "core/base/os/memfd.hpp"
#include "core/channel/wire/draft_checks.hpp"
#include "core/channel/wire/step.hpp"
#include "core/tensor/plan_source.hpp"

namespace gantry {
namespace {

constexpr const char* kStaysMapped =
    "the payload must stay mapped, and its file as long, until it was sent";

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

std::optional<ReshapePlan> plan_of_move(const Move& move) {
  if (move.kind != Move::Kind::reshape) return std::nullopt;
  return *move.plan;
}

Result<Completion> copy_by(Lane& lane, Move move) {
  Completion completion;
  move.completion = &completion;
  GANTRY_ASSIGN(const Ticket ticket, lane.submit(move, SubmitMode::synchronous));
  if (lane.wait(ticket) == Outcome::done) return completion;
  return tl::unexpected(copy_error(completion, move.bytes));
}

Error copy_error(const Completion& completion, Bytes bytes) {
  const bool theirs = completion.cause == Cause::unreadable;
  return {theirs ? Code::invalid_argument : Code::system,
          fmt::format("copying {} bytes: the {} engine stopped after {}: {} at {:#x}", bytes,
                      to_string(completion.engine), completion.bytes_done,
                      to_string(completion.cause), completion.fault_address),
          theirs ? kStaysMapped : ""};
}

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
  GANTRY_TRY(look_at_parts());
  mode_ = mode_for({options_.mode, core_.options.mode, packed_, parts_.size() != 1});
  if (is_chunked()) chunk_bytes_ = chunk_of(total_);
  if (mode_ == SendMode::streamed) window_bytes_ = window_of(total_);
  const std::uint64_t began = trace::is_on() ? read_ticks() : 0;
  Lock held = core_.lock();
  const auto result = with_slot(
      held, [&] { return is_chunked() ? publish_then_copy(held) : copy_then_publish(held); });
  if (slot_ == nullptr) return result;
  if (message_.header.number != 0) core_.note_sent(began, message_.header.number, total_);
  finish();
  GANTRY_STEP(sender_done);
  return result;
}

Result<Slot*> SendOperation::run_early() {
  GANTRY_TRY(look_at_parts());
  const auto is_other = [](auto& part) { return !part.moved && (part.forwarded || size_of(part)); };
  if (const auto other = std::ranges::find_if(parts_, is_other); other != parts_.end())
    return core_.refuse(Code::invalid_argument,
                        fmt::format("segment {} of {} is no block of this producer's pool, so it "
                                    "cannot be sent early",
                                    other - parts_.begin() + 1, parts_.size()),
                        "allocate a block by Producer::pool(), and add it by Draft::move()");
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
    GANTRY_ASSIGN(slot_, gate_.await_slot(held, total_, options_.deadline));
    return {};
  }
  GANTRY_TRY(gate_.check_consumers());
  GANTRY_ASSERT(lent_slot_->is_lent);  // a loan is published once
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

Result<void> SendOperation::look_at_parts() {
  const SendMode asked = core_.mode_of(options_);
  GANTRY_TRY(named(check_mode(asked)));
  const bool immutable = asked == SendMode::immutable;
  GANTRY_TRY(named(check_segments(parts_.size())));
  for (Draft::Part& part : parts_) {
    if (part.forwarded && !is_held(part))
      return core_.refuse(
          Code::invalid_argument,
          fmt::format("a forwarded message of {} bytes was released before it was sent",
                      part.bytes.size()),
          "forward a message that is still held");
    // Private to this process, or to be out of everybody's reach.
    if (part.forwarded && (immutable || !slice_of(part))) part.copied = part.bytes;
    if (part.moved && immutable)
      return core_.refuse(Code::invalid_argument,
                          "a block of the pool cannot be immutable: it stays writable",
                          "send a copy: Draft::copy()");
    if (part.moved) GANTRY_TRY(check_block(part));
    if (part.tensor && !part.tensor->fits(part.bytes.size()))
      return tl::unexpected(core_.named(shape::does_not_fit(*part.tensor, part.bytes.size())));
    const Bytes size = size_of(part);
    if (size > (Bytes{1} << 62) - total_)  // no sum wraps
      return core_.refuse(Code::too_large,
                          fmt::format("a segment of {} bytes: a message has at most 2^62", size),
                          "check its size: it may be a negative number");
    total_ += size;
    if (!is_copied(part)) continue;
    packed_ = round_up(packed_, Pool::kLineAlignment) + size;
    copied_ += size;
  }
  return {};
}

Result<void> SendOperation::check_block(const Draft::Part& part) const {
  if (!core_.pool.owns(part.block))
    return core_.refuse(Code::invalid_argument, "that block is empty or of another pool",
                        "allocate it from Producer::pool(), or send a copy");
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

// ---- memory --------------------------------------------------------------------------------

// What its slot kept will do: there is nothing to wait for.
bool SendOperation::has_memory() noexcept {
  return mode_ != SendMode::immutable && !needs_table() &&
         (packed_ == 0 || PayloadAllocator::reuse(*slot_, memory_bytes()));
}

// Making all pages of a large payload for a copy that fails takes seconds.
Result<void> SendOperation::take_memory() {
  constexpr Bytes kLarge = Bytes{1} << 20;
  for (const Draft::Part& part : parts_)
    if (is_copied(part) && part.bytes.size() >= kLarge && !is_mapped(part.bytes))
      return core_.refuse(Code::invalid_argument,
                          fmt::format("a payload of {} bytes at {}: not all of it is mapped",
                                      part.bytes.size(), fmt::ptr(part.bytes.data())),
                          kStaysMapped);
  if (mode_ == SendMode::immutable) {
    GANTRY_ASSIGN(sealed_, copy_sealed());
  } else if (packed_ > 0) {
    GANTRY_TRY(memory_.fill(*slot_, memory_bytes(), options_.deadline));
  }
  if (!needs_table()) return {};
  GANTRY_ASSIGN(slot_->table,
                memory_.allocate(parts_.size() * sizeof(SegmentEntry), options_.deadline));
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
  core_.page().landing[index].begin(core_.publisher->published() + 1);
  GANTRY_STEP(landing_cleared);
  publish();
}

void SendOperation::publish() {
  core_.publisher->publish(message_, slot_);
  core_.counters->message(total_);
  GANTRY_PROBE(publish, core_.name.c_str(), message_.header.number, total_);
  if (trace::is_on()) [[unlikely]]
    core_.trace.note(trace::EventKind::publish, message_.header.number);
  GANTRY_STEP(message_published);
}

void SendOperation::landed(Bytes bytes) {
  landed_ += bytes;
  GANTRY_ASSERT(landed_ <= total_);
  if (landed_ < total_ && total_ <= kQuietLanding) {  // [Q]
    core_.tell_landed_quietly(*slot_, landed_);
    GANTRY_STEP(landed_stored);
    return;
  }
  const ProducerCore::Lock held = core_.lock();
  core_.tell_landed(*slot_, landed_);
  GANTRY_STEP(landed_stored);
  core_.publisher->wake_holders(*slot_);
}

void SendOperation::abort() noexcept {
  const ProducerCore::Lock held = core_.lock();
  core_.tell_landed(*slot_, landed_ | LandingWord::kAborted);
  core_.publisher->wake_holders(*slot_);
  GANTRY_STEP(message_aborted);
}

void SendOperation::finish() {
  if (last_copy_.payload != 0) core_.last_copy = last_copy_;
  SlotTable& slots = core_.consumers->slots();
  if (copy_ticks_ != 0 && slots.keeps() && core_.rotation.took(packed_, copy_ticks_))
    slots.drop_spares(core_.rotation.most_places());
  const bool passed_on = !slot_->forwarded.empty();
  core_.consumers->slots().release(*slot_);
  if (passed_on) gate_.watch_forwards();
}

// ---- how its bytes get to their place -------------------------------------------------------

// By pwrite(2): a writable mapping would keep the kernel from sealing.
Result<std::shared_ptr<const Region>> SendOperation::copy_sealed() const {
  GANTRY_ASSIGN(Fd memory, make_memfd("gantry-immutable", std::max<Bytes>(packed_, 1)));
  Bytes packed_at = 0;
  const std::uint64_t started = read_ticks();
  for (const Draft::Part& part : parts_) {
    packed_at = round_up(packed_at, Pool::kLineAlignment);
    auto written = plan_of(part) != nullptr ? write_converted(memory.get(), packed_at, part)
                                            : write_at(memory.get(), part.bytes, packed_at);
    if (!written) return tl::unexpected(core_.named(std::move(written).error()));
    packed_at += size_of(part);
  }
  core_.note_copied(CopyEngine::inline_, started, total_, number(), parts_.size());
  GANTRY_TRY(seal(memory.get(), kSizeSeals | F_SEAL_FUTURE_WRITE | F_SEAL_WRITE));
  GANTRY_ASSIGN(Region region, Region::import(memory.release(), std::max<Bytes>(packed_, 1)));
  return std::make_shared<const Region>(std::move(region));
}

// What is to be sealed cannot be mapped for writing: it is made in private memory, piece by piece.
Result<void> SendOperation::write_converted(int memory, Bytes at, const Draft::Part& part) const {
  constexpr Bytes kPiece = Bytes{256} << 10;
  const ReshapePlan& plan = *plan_of(part);
  const Bytes size = plan.destination_bytes();
  std::vector<std::byte> made(std::min(kPiece, size));
  for (Bytes done = 0; done < size; done += made.size()) {
    const ByteSpan piece = ByteSpan(made).first(std::min(kPiece, size - done));
    GANTRY_TRY(copy_by(lane_, Move::reshape(piece, part.bytes, plan, done)));
    GANTRY_TRY(write_at(memory, piece, at + done));
  }
  return {};
}

Result<void> SendOperation::copy_parts() {
  if (mode_ == SendMode::immutable) return {};  // it is there
  Bytes packed_at = 0;
  std::uint64_t ticks = 0;
  for (const Draft::Part& part : parts_) {
    if (!is_copied(part)) {
      if (mode_ != SendMode::whole) landed(size_of(part));
      continue;
    }
    packed_at = round_up(packed_at, Pool::kLineAlignment);
    const Bytes size = size_of(part);
    if (size == 0) continue;
    const std::uint64_t started = read_ticks();
    const ChunkPlan plan = plan_for(slot_->block.bytes().subspan(packed_at), part);
    GANTRY_TRY(goes_by_two() ? copy_by_two(plan) : copy_chunks(plan));
    packed_at += size;
    ticks += core_.note_copied(engine_, started, size, number(), plan.count());
  }
  if (mode_ != SendMode::streamed) copy_ticks_ = ticks;
  return {};
}

// `to`: from the part's place to the end; for a streamed message the window. A message that goes
// whole is a single chunk, unless two threads copy it.
ChunkPlan SendOperation::plan_for(ByteSpan to, const Draft::Part& part) const noexcept {
  ChunkPlan plan{to, part.bytes, chunk_bytes_, window_bytes_, CacheUse::automatic, plan_of(part)};
  const Bytes size = plan.size();
  if (mode_ == SendMode::whole) plan.chunk = goes_by_two() ? kLargestChunk : size;
  if (mode_ == SendMode::streamed) plan.cache = CacheUse::reader_soon;
  // A single chunk would always stay in the cache, where the next ones push it out again.
  const bool lies_together =
      mode_ == SendMode::whole || (mode_ == SendMode::pipelined && !goes_by_two());
  if (plan.chunk < size && lies_together) plan.cache = cache_uses_.of(lane_, size);
  return plan;
}

Result<void> SendOperation::copy_chunks(const ChunkPlan& plan) {
  for (std::uint64_t chunk = 0; chunk < plan.count(); ++chunk) {
    if (mode_ == SendMode::streamed) {
      GANTRY_TRY(await_window(chunk));
      if (unwanted_) return {};
    }
    const Move move = plan.move_of(chunk);
    GANTRY_TRY(copy(move));
    GANTRY_STEP(chunk_copied);
    if (mode_ != SendMode::whole) landed(move.bytes);
  }
  return {};
}

// Waits until everyone has passed the chunk in whose place `chunk` goes. Consumers may drop the
// message half-way; a message that nobody wants is not copied.
Result<void> SendOperation::await_window(std::uint64_t chunk) {
  GANTRY_ASSERT(chunk_bytes_ != 0 && window_bytes_ >= chunk_bytes_);
  const std::uint64_t window = window_bytes_ / chunk_bytes_;
  if (chunk < passed_ + window) return {};
  ProducerCore::Lock held = core_.lock();
  std::optional<std::uint64_t> passed;
  const auto is_open = [&] {
    passed = core_.publisher->chunks_passed_of(*slot_);
    return !passed || chunk < *passed + window;
  };
  const auto why = [&]() -> WaitReason {
    const std::string what = fmt::format("chunk {} of the streamed message", chunk - window + 1);
    return {WaitReason::Kind::window, fmt::format("for a consumer to take {}", what),
            fmt::format("a consumer did not take {} in time", what)};
  };
  GANTRY_TRY(gate_.wait_until(held, options_.deadline, is_open, why));
  GANTRY_STEP(window_awaited);
  unwanted_ = !passed;
  if (passed) passed_ = *passed;
  if (passed) return {};
  GANTRY_TRY(gate_.check_consumers());
  if (!slot_->was_missed) return {};
  return core_.refuse(Code::peer_gone,  // another consumer came since
                      "the consumer left before it took the streamed message", "send it again");
}

Result<void> SendOperation::copy(Move move) {
  auto copied = copy_by(lane_, move);
  if (!copied) return tl::unexpected(core_.named(std::move(copied).error()));
  engine_ = copied->engine;
  last_copy_ = {move.destination, move.source,   move.bytes,        copied_, mode_,
                copied->engine,   copied->cache, plan_of_move(move)};
  if (copied->helper_cpu_ns != 0) core_.metrics.meter()->cpu(copied->helper_cpu_ns);
  return {};
}

// ---- by two threads ------------------------------------------------------------------------

// The caller and one more thread take the chunks of a large payload in turn. Only the caller tells
// the consumers, so what has landed has one writer.
Result<void> SendOperation::copy_by_two(const ChunkPlan& plan) {
  SharedCopy shared(plan);
  auto copied = take_turns(shared);
  second_->withdraw();  // before anything that it may touch goes
  if (shared.cpu_ns != 0) core_.metrics.meter()->cpu(shared.cpu_ns);
  return copied;
}

Result<void> SendOperation::take_turns(SharedCopy& shared) {
  SharedChunks& chunks = shared.chunks;
  const std::uint64_t count = shared.plan.count();
  const std::uint64_t window = shared.plan.window == 0 ? count : window_bytes_ / chunk_bytes_;
  std::uint64_t told = 0;
  chunks.allow(passed_ + window);
  while (told < count) {
    if (chunks.has_failed()) return await_second(shared);
    if (chunks.left() > 1) second_->invite(shared);
    if (const auto mine = chunks.take()) {
      GANTRY_TRY(copy(shared.plan.move_of(*mine)));
      GANTRY_STEP(chunk_copied);
      tell(shared, told);
      continue;
    }
    GANTRY_TRY(await_second(shared));
    tell(shared, told);
    if (told == count) break;
    GANTRY_TRY(await_window(told));
    if (unwanted_) return {};
    chunks.allow(passed_ + window);
  }
  return {};
}

// It ends soon: a chunk takes microseconds, unless the thread has lost its CPU.
Result<void> SendOperation::await_second(SharedCopy& shared) {
  const auto is_done = [&shared] { return shared.chunks.second_is_done(); };
  while (!poll_for(core_.options.spin, Deadline::never(), is_done)) std::this_thread::yield();
  if (!shared.chunks.has_failed()) return {};
  return tl::unexpected(core_.named(copy_error(shared.failure, shared.plan.chunk)));
}

// Tells how much is there from the front on; for a message that goes whole only when all is.
void SendOperation::tell(const SharedCopy& shared, std::uint64_t& told) {
  const std::uint64_t there = shared.chunks.prefix();
  const Bytes size = shared.plan.size();
  if (mode_ != SendMode::whole && there > told)
    landed(std::min<Bytes>(there * shared.plan.chunk, size) -
           std::min<Bytes>(told * shared.plan.chunk, size));
  told = there;
}

}  // namespace gantry
