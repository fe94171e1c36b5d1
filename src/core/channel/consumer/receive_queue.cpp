#include "core/channel/consumer/receive_queue.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/base/assert.hpp"
#include "core/base/os/cpu.hpp"
#include "core/channel/naming/rendezvous.hpp"
#include "core/channel/wire/beside_tensor.hpp"

namespace gantry {
namespace {

constexpr int kBusyTurns = 500;   // a microsecond or two
constexpr int kQuickTurns = 128;  // some more

/// How a message is made: as a result, or in the place of one that is empty.
struct AsResult {
  using Made = Result<Message>;
  template <class... Args>
  Made operator()(Args&&... args) const {
    return Made(tl::in_place, std::forward<Args>(args)...);
  }
  static void describe(Made& made, std::unique_ptr<std::vector<Segment>> segments) {
    made->set_segments(std::move(segments));
  }
};
struct InPlace {
  using Made = Result<void>;
  template <class... Args>
  Made operator()(Args&&... args) const {
    static_assert(std::is_nothrow_constructible_v<Message, Args...>);
    std::destroy_at(place);
    std::construct_at(place, std::forward<Args>(args)...);
    return {};
  }
  void describe(Made&, std::unique_ptr<std::vector<Segment>> segments) const {
    place->set_segments(std::move(segments));
  }
  Message* place;
};

std::string not_small(unsigned kind, unsigned bytes) {
  return fmt::format(
      "invalid record: kind {:#x} with {} bytes; a small message has kind 0x0 or {:#x} and at most "
      "{} bytes",
      kind, bytes, kExtra, Message::kInlineBytes);
}

ReceivedRecord copy_of_small(const MessageRecord& record) {
  ReceivedRecord received{};
  received.header = record.header;
  if ((record.header.kind & kExtra) != 0) received.extra = record.extra;
  return received;
}

}  // namespace

Result<void> ReceiveQueue::start(std::weak_ptr<ReceivedPayloads> payloads) {
  payloads_ = std::move(payloads);
  own_page_ = &core_.own_page();
  ring_page_ = &core_.ring_page();
  must_claim_ = core_.options.when_slow == SlowConsumer::drop_oldest;
  const std::size_t cells = ring_page_->cells;  // read once: the producer can write it any time
  if (!std::has_single_bit(cells) || cells > kCells)
    return fail(
        Code::peer_misbehaved,
        fmt::format("a ring of {} cells; a power of two up to {} is allowed", cells, kCells));
  ring_.emplace(std::span(ring_page_->ring).first(cells));
  credits_ = std::clamp<std::uint64_t>(core_.page().slots, 1, cells);
  report_after_ = static_cast<unsigned>(std::max<std::size_t>(cells / 4, 1));
  return {};
}

// ---- what there is ---------------------------------------------------------------------------

bool ReceiveQueue::at_end() const noexcept {
  const std::uint64_t end = ring_page_->end.load(std::memory_order_seq_cst);  // [E]
  return end != 0 && ring_->taken() + 1 >= end && !pending_;
}

bool ReceiveQueue::has_news(Wanted wanted) const noexcept {
  if (pending_) return wanted == Wanted::early || pending_->message.has_more();
  return is_there() || at_end();
}

// The next cell alone, at first without a pause: on some processors one takes as long as a small
// message's whole way. Its second line is asked for with the first, as it comes from the same
// cache: one behind the other they would take twice the time.
void ReceiveQueue::watch_closely() const noexcept {
  if (pending_) return;
  const auto* const second_line = ring_->next().body.data() + kNearBytes;
  for (int turn = 0; turn < kBusyTurns; ++turn) {
    if (ring_->ready()) return;
    __builtin_prefetch(second_line);
  }
  for (int turn = 0; turn < kQuickTurns && !ring_->ready(); ++turn) cpu_relax();
}

Result<bool> ReceiveQueue::look(Wanted wanted) {
  for (std::size_t given_up = 0; given_up <= kCells; ++given_up) {  // more than a ring: next time
    if (core_.broken) return tl::unexpected(*core_.broken);
    if (!pending_ && is_there()) {
      if (wanted == Wanted::there && is_on_its_way()) return false;
      if (wanted == Wanted::in_place && (next_is_small() || next_is_beside())) return true;
      GANTRY_TRY(take_next());
    }
    if (!pending_) break;
    if (wanted == Wanted::early) return true;
    GANTRY_ASSIGN(const bool whole, pending_->message.try_front(pending_->message.size()));
    if (whole) return true;
    if (!pending_->message.is_aborted()) break;
    pending_.reset();
  }
  if (!core_.producer_gone && !at_end()) return false;
  pending_.reset();  // the rest of it never comes
  if (!at_end()) core_.confirm_end();
  return tl::unexpected(ending_error());
}

Error ReceiveQueue::ending_error() {
  if (core_.broken) return *core_.broken;
  const std::string& name = core_.name;
  if (at_end()) {
    finished_ = true;
    return {Code::closed, fmt::format("channel '{}': the stream has ended", name), ""};
  }
  if (!core_.is_called) sweep_if_stale(core_.options.directory, name, Deadline::now());
  const bool lives = core_.producer_lives();
  if (core_.is_called && lives)
    return {Code::peer_gone,
            fmt::format("channel '{}': the sender (process {}) hung up before the stream's end: it "
                        "dropped its end, or dies",
                        name, core_.producer_pid),
            ""};
  if (lives)
    return {Code::peer_gone,
            fmt::format("channel '{}': the producer (process {}), which runs, ended this session "
                        "before the stream's end: it dropped its end, or this one was too slow",
                        name, core_.producer_pid),
            "rejoin(); SlowConsumer::disconnect is for readers that are never that slow"};
  return {Code::peer_gone,
          fmt::format("channel '{}': the producer (process {}) is gone before the stream's end",
                      name, core_.producer_pid),
          ""};
}

// ---- taking ----------------------------------------------------------------------------------

template <class Make>
auto ReceiveQueue::make_small(Make make) -> typename Make::Made {
  const MessageRecord& record = ring_->next();
  ReceivedRecord received;  // NOLINT: copied first, then checked, then used
  std::memcpy(&received.header, &record.header, sizeof received.header);
  const bool honest = is_small(received.header);
  const unsigned kind = received.header.kind;
  const unsigned bytes = received.header.count;
  if (!honest) [[unlikely]]
    received.header.kind = received.header.count = 0;
  if ((received.header.kind & kExtra) != 0)
    std::memcpy(&received.extra, &record.extra, sizeof received.extra);
  auto message = make(std::integral_constant<std::size_t, kNearBytes>(), record.body.data(),
                      Bytes{received.header.count}, received.info());
  note_copied_out(received.header.count);
  if (!honest) [[unlikely]]
    message = tl::unexpected(core_.misbehaved(not_small(kind, bytes)));
  return message;
}

Result<Message> ReceiveQueue::copy_small() {
  return make_small(AsResult());
}

Result<void> ReceiveQueue::copy_small_to(Message& into) {
  return make_small(InPlace{&into});
}

void ReceiveQueue::note_copied_out(Bytes bytes) noexcept {
  note_taken();
  core_.counters->copy(CopyEngine::inline_, bytes, 0);
}

void ReceiveQueue::note_taken() noexcept {
  ring_->take();
  GANTRY_STEP(small_taken);
  // At a full ring, or the stream's end, the writer may sleep, and we may never come back. [F] of
  // credit_gate.hpp: mark, then look.
  ring_->mark(own_page_->taken);
  GANTRY_STEP(taken_marked);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // for the compiler's eyes only
  if (ring_->unreported() >= report_after_ || ring_->is_published(credits_ - 1) || is_ending())
    report_taken();
}

// What it says of itself is read once: the producer can write it any time. So it can the payload,
// of which this end has a copy that stays, unless it is looked at `in_place`.
template <class Make>
auto ReceiveQueue::make_of_beside(const MessageRecord& record, Make make, bool in_place) ->
    typename Make::Made {
  MessageRecord copied;  // NOLINT: its near half is
  std::memcpy(&copied, &record, kNearRecordBytes);
  ReceivedRecord received{};
  received.header = copied.header;
  BesidePlace place;  // NOLINT: copied
  std::memcpy(&place, copied.body.data(), sizeof place);
  if ((received.header.kind & kExtra) != 0)
    std::memcpy(&received.extra, &record.extra, sizeof received.extra);
  if (place.place >= kBesidePlaces || place.bytes > kBesideBytes)
    return tl::unexpected(core_.misbehaved(
        fmt::format("a message of {} bytes in place {} beside its record; at most {} bytes in "
                    "places 0 to {} are allowed",
                    place.bytes, place.place, kBesideBytes, kBesidePlaces - 1)));
  std::unique_ptr<std::vector<Segment>> segments;
  if (received.header.count != 0) {
    const auto tensor = tensor_beside(BesidePayload::read(copied));
    if (!tensor)
      return tl::unexpected(core_.misbehaved(fmt::format(
          "invalid record: its tensor of {} dimensions does not fit the {} bytes beside "
          "it",
          received.header.count, place.bytes)));
    segments = std::make_unique<std::vector<Segment>>(1, Segment{{}, tensor});
  }
  const ConstByteSpan bytes = looked_.bytes(place);
  const auto describe = [&](auto& made, ConstByteSpan lies) {
    if (!segments) return;
    segments->front().bytes = lies;
    make.describe(made, std::move(segments));
  };
  if (in_place) {
    auto made = make(looked_.owner(), std::uint64_t{0}, bytes, received.info());
    describe(made, bytes);
    looked_.begin(received.header, bytes);  // last: an error before it leaves the message there
    return made;
  }
  if (!copies_) copies_ = std::make_shared<CopiedPayloads>();
  const CopiedPayloads::Copy copy = copies_->copy(bytes);
  auto made = make(copies_, copy.token, copy.bytes, received.info());
  describe(made, copy.bytes);
  return made;
}

Result<Message> ReceiveQueue::look_at_beside() {
  auto message = make_of_beside(ring_->next(), AsResult(), true);
  if (message) note_taken();
  return message;
}

Result<Message> ReceiveQueue::copy_beside() {
  auto message = make_of_beside(ring_->next(), AsResult());
  if (message) note_copied_out(message->bytes().size());
  return message;
}

Result<void> ReceiveQueue::copy_beside_to(Message& into) {
  GANTRY_TRY(make_of_beside(ring_->next(), InPlace{&into}));
  note_copied_out(into.bytes().size());
  return {};
}

// Needs a message in the ring. It becomes the pending one.
Result<void> ReceiveQueue::take_next() {
  GANTRY_DEBUG_ASSERT(!pending_);
  if (must_claim_) return claim_next();
  const bool is_beside = next_is_beside();
  if (is_beside || next_is_small()) {
    prepare();  // first, as below
    GANTRY_ASSIGN(auto message, is_beside ? copy_beside() : copy_small());
    spare_->message.fill(std::move(message));
    pending_ = std::move(spare_);
    return {};
  }
  auto received = read_record(ring_->next());
  if (!received) return tl::unexpected(core_.break_stream(received.error()));
  GANTRY_TRY(hold(*received));  // first: it may find no heap, and the message is not to be lost
  ring_->take();
  GANTRY_STEP(record_taken);
  report_taken();
  return {};
}

// The record is the producer's, who may have changed it since.
Result<Message> ReceiveQueue::take_block() {
  const auto received = read_record(ring_->next());
  if (!received) return tl::unexpected(core_.break_stream(received.error()));
  if (received->lies() != PayloadLocation::block || received->is_landing())
    return tl::unexpected(core_.misbehaved(
        fmt::format("the record changed while it was taken: kind {:#x} now, a whole block's before",
                    received->header.kind)));
  auto payloads = payloads_.lock();
  GANTRY_ASSERT(payloads != nullptr);  // the end that calls this owns them
  GANTRY_ASSIGN(const ConstByteSpan bytes, payloads->hold_block(*received));
  ring_->take();
  GANTRY_STEP(record_taken);
  report_taken();
  const std::uint64_t token = token_of(received->header.slot, received->header.number);
  return Result<Message>(tl::in_place, std::move(payloads), token, bytes, received->info());
}

// The record becomes the pending message. What this throws leaves everything as it was.
Result<void> ReceiveQueue::hold(const ReceivedRecord& received) {
  auto payloads = payloads_.lock();
  GANTRY_ASSERT(payloads != nullptr);  // as above
  GANTRY_ASSIGN(std::vector<Segment> segments, payloads->hold(received));
  try {
    pending_.reset(new Incoming::Impl{{payloads, received, std::move(segments)}});
  } catch (const std::bad_alloc&) {
    payloads->drop(received.header.slot);
    throw;
  }
  return {};
}

// Of a producer that may take messages back: the oldest that it leaves us, if any, becomes the
// pending one.
Result<void> ReceiveQueue::claim_next() {
  auto small = std::make_unique<Incoming::Impl>();  // first: there may be no heap
  MessageRecord record;                             // NOLINT: claim() fills it
  const bool claimed =
      ring_->claim(record, own_page_->taken, ring_page_->revoked,
                   [this](const MessageRecord& missed) noexcept { pass_over(missed); });
  own_page_->missed.store(ring_->missed(), std::memory_order_relaxed);  // for people
  GANTRY_STEP(message_claimed);
  core_.ring_producer();
  if (!claimed) return {};
  try {
    if (is_beside(record.header)) {  // left by the one before; nothing is written there any more
      GANTRY_ASSIGN(auto message, make_of_beside(record, AsResult()));
      small->message.fill(std::move(message));
      pending_ = std::move(small);
      return {};
    }
    if ((record.header.kind & kLocationMask) != static_cast<std::uint8_t>(PayloadLocation::here)) {
      auto received = read_record(record);
      if (!received) return tl::unexpected(core_.break_stream(received.error()));
      return hold(*received);
    }
  } catch (const std::bad_alloc&) {
    pass_over(record);  // one more that this consumer missed
    throw;
  }
  if (!is_small(record.header))
    return tl::unexpected(core_.misbehaved(not_small(record.header.kind, record.header.count)));
  const ReceivedRecord received = copy_of_small(record);
  core_.counters->copy(CopyEngine::inline_, record.header.count, 0);
  small->message.fill(
      Message(ConstByteSpan(record.body).first(record.header.count), received.info()));
  pending_ = std::move(small);
  return {};
}

// The producer may count it as ours; it was never in anybody's hands.
void ReceiveQueue::pass_over(const MessageRecord& record) noexcept {
  if (record.header.slot < kMaxSlots)
    own_page_->released.release(record.header.slot, record.header.number);
  GANTRY_STEP(message_passed_over);
}

void ReceiveQueue::report_taken() noexcept {
  if (ring_->unreported() == 0) return;
  ring_->report(own_page_->taken);
  GANTRY_STEP(taken_stored);
  core_.ring_producer();
}

}  // namespace gantry
