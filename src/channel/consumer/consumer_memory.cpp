// Where messages lie, what is in the user's hands, and who sleeps elsewhere.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>

#include "base/memfd.hpp"
#include "channel/consumer/incoming.hpp"
#include "channel/wire/step.hpp"

namespace gantry {
// ---- messages that may be taken back ---------------------------------------------------------

// Into pending_, if the producer leaves us one.
Result<void> Consumer::Impl::claim_next() {
  auto small = std::make_unique<Incoming::Impl>();  // first: there may be no heap
  MessageRecord record;                             // NOLINT: claim() fills it
  const bool claimed =
      ring_->claim(record, own().taken, ring_page().revoked,
                   [this](const MessageRecord& missed) noexcept { pass_over(missed); });
  own().missed.store(ring_->missed(), std::memory_order_relaxed);  // for people
  GANTRY_STEP(message_claimed);
  ring_producer();
  if (!claimed) return {};
  if ((record.header.kind & kLocationMask) != static_cast<std::uint8_t>(PayloadLocation::here)) {
    auto received = read_record(record);
    if (!received) return tl::unexpected(ruined(received.error()));
    try {
      return hold(*received);
    } catch (const std::bad_alloc&) {
      pass_over(record);  // one more that this consumer missed
      throw;
    }
  }
  if (!is_small(record.header)) return tl::unexpected(misbehaved("a small message that is none"));
  ReceivedRecord received{};
  received.header = record.header;
  if ((record.header.kind & kExtra) != 0) received.extra = record.extra;
  counters_->copy(CopyEngine::inline_, record.header.count, 0);
  small->fill(Message(ConstByteSpan(record.body).first(record.header.count), received.info()));
  pending_ = std::move(small);
  return {};
}

// The producer may count it as ours; it was never in anybody's hands.
void Consumer::Impl::pass_over(const MessageRecord& record) noexcept {
  if (record.header.slot < kMaxSlots)
    own().released.release(record.header.slot, record.header.number);
  GANTRY_STEP(message_passed_over);
}

// ---- memory --------------------------------------------------------------------------------

// Where it is mapped, its pages present. From here on found_ keeps the slab mapped: looking for the
// next one may hear anything.
Result<ConstByteSpan> Consumer::Impl::find_bytes(std::uint32_t number, Bytes offset, Bytes bytes) {
  if (bytes == 0) return ConstByteSpan();
  // It was announced before it was used: what is not in the socket by now nobody waits for.
  const auto found = slabs_.find(number, connection_.receive_fd(), Deadline::now());
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

Result<std::vector<Segment>> Consumer::Impl::find_segments(const ReceivedRecord& received) {
  found_.clear();
  const Place& place = received.place;
  const Bytes mapped = received.is_streamed() ? place.window_bytes : place.bytes;
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

void Consumer::Impl::give_back(std::uint64_t token) noexcept {
  if (!fork_guard_.is_this()) return;  // a fork's copy: the parent still reads it
  const auto slot = static_cast<std::size_t>(token >> kNumberBits);
  held_.drop(slot);
  own().released.release(slot, token & ((std::uint64_t{1} << kNumberBits) - 1));
  GANTRY_STEP(released_stored);
  ring_producer();
}

std::optional<detail::RegionSlice> Consumer::Impl::where(std::uint64_t token,
                                                         ConstByteSpan bytes) const {
  if (!fork_guard_.is_this()) return std::nullopt;
  auto slice = held_.where(static_cast<std::size_t>(token >> kNumberBits), bytes);
  if (!slice) return std::nullopt;
  slice->inherited = detail::inherit(producer_wake_, std::move(slice->inherited));
  if (slice->inherited == nullptr) return std::nullopt;  // from hand to hand too often: a copy
  return slice;
}

bool Consumer::Impl::is_immutable(std::uint64_t token, ConstByteSpan bytes) const {
  if (bytes.empty()) return true;
  const auto slice = held_.where(static_cast<std::size_t>(token >> kNumberBits), bytes);
  return fork_guard_.is_this() && slice && check_sealed(slice->region->descriptor(), F_SEAL_WRITE);
}

void Consumer::Impl::pass_chunks(std::uint16_t slot, std::uint64_t number,
                                 std::uint64_t chunks) noexcept {
  if (!fork_guard_.is_this()) return;  // a fork's copy
  own().passed[slot].store(passed_word(number, chunks), std::memory_order_seq_cst);  // [C]
  GANTRY_STEP(passed_stored);
  ring_producer();
}

// What was dropped is unmapped by now: a producer that waits for its memory has it.
void Consumer::Impl::confirm_heard() noexcept {
  // Relaxed: this thread alone writes it.
  if (own().heard.load(std::memory_order_relaxed) == slabs_.heard()) return;
  own().heard.store(slabs_.heard(), std::memory_order_seq_cst);  // [K]
  ring_producer();
}

void Consumer::Impl::ring_producer() noexcept {
  if (wake_filter_.must_wake(page().producer_sleeps)) producer_wake_->ring();
  GANTRY_STEP(producer_rung);
}

// ---- sleeping elsewhere --------------------------------------------------------------------

Result<int> Consumer::Impl::event_descriptor() {
  GANTRY_TRY(check_process());
  if (watched_) return watched_.get();
  Fd watched(::epoll_create1(EPOLL_CLOEXEC));
  if (!watched) return fail_errno("epoll_create1");
  for (const int descriptor : {connection_.receive_fd(), pidfd_.get()}) {
    epoll_event interest{};
    interest.events = EPOLLIN;
    if (descriptor >= 0 && ::epoll_ctl(watched.get(), EPOLL_CTL_ADD, descriptor, &interest) != 0)
      return fail_errno("epoll_ctl");
  }
  if (wake_receiver_.descriptor() >= 0) GANTRY_TRY(wake_receiver_.hang_in(watched.get(), EPOLLIN));
  watched_ = std::move(watched);
  rouse();  // what is there already counts: the loop begins with a look
  return watched_.get();
}

// The wake-up socket is rung by the producer alone, but it can always be written to.
void Consumer::Impl::rouse() noexcept {
  if (!watched_) return;
  is_to_look_ = true;
  wake_receiver_.wait_for(EPOLLIN | EPOLLOUT);
}

void Consumer::Impl::arm() noexcept {
  if (!watched_ || armed_) return;
  own().consumer_sleeps.announce();
  armed_ = true;
}

void Consumer::Impl::disarm() noexcept {
  if (!watched_) return;
  if (armed_) own().consumer_sleeps.withdraw();
  armed_ = false;
  if (std::exchange(is_to_look_, false)) wake_receiver_.wait_for(EPOLLIN);
  drain_wakes();
}

// What can be rung no more is readable for ever: nobody would sleep on it. Its end tells of the
// producer's, which the socket or the pidfd shows.
void Consumer::Impl::drain_wakes() noexcept {
  if (wake_receiver_.descriptor() >= 0 && !wake_receiver_.drain()) wake_receiver_.reset();
}

}  // namespace gantry
