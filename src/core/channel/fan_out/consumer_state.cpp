#include "core/channel/fan_out/consumer_state.hpp"

#include <cstring>
#include <new>

#include "core/channel/fan_out/slot_table.hpp"

namespace gantry {

Result<Region> ConsumerState::make_page(unsigned credits) {
  GANTRY_ASSIGN(Region memory, Region::create(shared_size(sizeof(RingPage)), "gantry-ring"));
  auto* page = new (memory.data()) RingPage;
  page->end = page->revoked = 0;
  page->magic = kRingMagic;
  page->version = kFormatVersion;
  page->cells = static_cast<std::uint32_t>(cells_for(credits));
  return memory;
}

ConsumerState::ConsumerState(unsigned id, unsigned index,
                             std::unique_ptr<ConsumerResources> resources, Region page,
                             unsigned credits)
    : id_(id),
      index_(index),
      depth_(depth_for(resources->policy, resources->depth, credits)),
      resources_(std::move(resources)),
      memory_(std::move(page)),
      ring_(std::span(this->page().ring).first(cells_for(credits))) {}

// Before a message that finds its reader asleep the time is not always read: it is looked here
// whether somebody records, so that the first of them is in the trace.
void ConsumerState::ring() noexcept {
  trace::look(read_ticks());
  resources_->wake_sender.ring();
  if (trace::is_on() && resources_->trace != nullptr) resources_->trace->woke(resources_->pid);
}

// ---- payloads beside their records -----------------------------------------------------------

void ConsumerState::publish_beside(const MessageHeader& header, std::uint32_t place,
                                   const BesidePayload& payload) noexcept {
  GANTRY_DEBUG_ASSERT(resources_->blocks() && payload.bytes <= kBesideBytes);
  const BesidePlace at{place, static_cast<std::uint32_t>(payload.bytes)};
  ring_.publish([&](MessageRecord& record) {
    std::memcpy(record.body.data(), &at, sizeof at);
    if (payload.count != 0)
      std::memcpy(record.body.data() + sizeof at, &payload.tensor, sizeof payload.tensor);
    write_header(record, header);
    GANTRY_STEP(record_written);
  });
  GANTRY_STEP(sequence_published);
}

// ---- drop_oldest -----------------------------------------------------------------------------

void ConsumerState::publish_over(const RecordToSend& message) noexcept {
  MessageRecord record{};
  message.write(record);
  GANTRY_STEP(record_written);
  ring_.publish_over(record);
  GANTRY_STEP(sequence_published);
  wake();
  GANTRY_STEP(consumer_woken);
}

std::uint64_t ConsumerState::unread_slots() const noexcept {
  std::uint64_t slots = 0;
  for_each_unread([&](const MessageRecord& record) {
    if (record.header.slot != kNoSlot) slots |= std::uint64_t{1} << record.header.slot;
  });
  return slots & holds_;
}

ConsumerState::TakenBack ConsumerState::take_back_oldest() noexcept {
  using Revoked = RevocableWriter<MessageRecord>::Revoked;
  TakenBack back;
  back.header = ring_.record(ring_.published() + 1 - ring_.unread()).header;
  const Revoked revoked = ring_.revoke_oldest(page().revoked, resources_->page().taken);  // [V]
  GANTRY_STEP(message_revoked);
  back.is_honest = revoked != Revoked::broken;
  back.is_certain = revoked == Revoked::certain;
  certain_ += back.is_certain ? 1 : 0;
  return back;
}

// Its own count includes what was in doubt, and comes later. A lie concerns nobody else.
std::uint64_t ConsumerState::taken_back() const noexcept {
  if (!resources_->drops_oldest()) return 0;
  // Relaxed: only displayed.
  const std::uint64_t missed = resources_->page().missed.load(std::memory_order_relaxed);
  return std::clamp(missed, certain_, ring_.published());
}

// What it cannot do more often than it was sent something. Chunks are its own word: only of those
// that could hold everybody up anyway.
std::uint64_t ConsumerState::work_done() const noexcept {
  std::uint64_t done = ring_.published() - ring_.unread() + gave_back_;
  // Relaxed: a hint, and its ring came after it.
  if (resources_->blocks())
    for_each_bit(holds_, [&](std::size_t slot) {
      done += resources_->page().passed[slot].load(std::memory_order_relaxed);
    });
  return done;
}

void ConsumerState::end_stream() noexcept {
  page().end.store(ring_.published() + 1, std::memory_order_seq_cst);  // [E]
  wake();
}

}  // namespace gantry
