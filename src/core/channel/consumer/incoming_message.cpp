#include "core/channel/consumer/incoming_message.hpp"

#include "core/base/clock.hpp"
#include "core/tensor/plan_source.hpp"

namespace gantry {

IncomingMessage::IncomingMessage(std::shared_ptr<ReceivedPayloads> payloads,
                                 const ReceivedRecord& received, std::vector<Segment> segments)
    : payloads_(std::move(payloads)),
      received_(received),
      info_(received.info()),
      segments_(std::move(segments)) {
  if (received_.is_streamed())
    total_ = received_.place.bytes;
  else
    for (const Segment& segment : segments_) total_ += segment.bytes.size();
  if (!received_.is_landing()) landed_ = total_;
}

IncomingMessage::IncomingMessage() : received_{} {
  segments_.reserve(1);
}

// Without a heap: the message is out of the ring.
void IncomingMessage::fill(Message small) noexcept {
  info_ = small.info();
  message_ = std::move(small);
  for (std::size_t i = 0; i < message_->segments(); ++i) segments_.push_back(message_->segment(i));
  for (const Segment& segment : segments_) total_ += segment.bytes.size();
  landed_ = total_;
}

void IncomingMessage::release() noexcept {
  if (payloads_) payloads_->give_back(token_of(received_.header.slot, info_.sequence));
  payloads_.reset();
}

std::string IncomingMessage::name() const {
  return payloads_ ? fmt::format("channel '{}': message {}", core().name, info_.sequence)
                   : fmt::format("message {}", info_.sequence);
}

// ---- how far it is ---------------------------------------------------------------------------

Bytes IncomingMessage::landed() noexcept {
  if (landed_ == total_ || aborted_ || !payloads_ || core().has_left) return landed_;
  const auto word = payloads_->landing_word(received_.header.slot, received_.header.number);
  if (!word) {
    core().note_cut_off();
    aborted_ = true;
    return landed_;
  }
  const Bytes bytes = *word & ~LandingWord::kAborted;
  // What goes backwards or beyond is no honest producer's: to us the message ends here.
  const Bytes most =
      is_streamed() ? std::min(total_, passed_ + received_.place.window_bytes) : total_;
  if (bytes < landed_ || bytes > most) {
    static_cast<void>(
        core().misbehaved(fmt::format("{} of {} bytes landed after {}", bytes, total_, landed_)));
    aborted_ = true;
    return landed_;
  }
  landed_ = bytes;
  aborted_ = (*word & LandingWord::kAborted) != 0;
  return landed_;
}

Result<void> IncomingMessage::check_landed(Bytes bytes) const {
  if (landed_ >= bytes) return {};
  if (core().broken) return tl::unexpected(*core().broken);
  return fail(Code::aborted,
              fmt::format("channel '{}': the sender gave message {} up after {} of {} bytes",
                          core().name, info_.sequence, landed_, total_));
}

Result<void> IncomingMessage::check_end_is_open() const {
  if (!payloads_ || !core().has_left || (landed_ == total_ && !is_streamed())) return {};
  return fail(Code::closed,
              fmt::format("channel '{}': its consumer was closed before message {} had landed",
                          core().name, info_.sequence));
}

Result<void> IncomingMessage::check_is_here() const {
  if (payloads_) GANTRY_TRY(core().check_process());
  if (!is_over_) return {};
  return fail(Code::invalid_argument, name() + " was handed over by whole() already");
}

// ---- chunk by chunk --------------------------------------------------------------------------

// Of a streamed message: its first `bytes` are not needed any more.
void IncomingMessage::pass(Bytes bytes) noexcept {
  if (!is_streamed() || !payloads_ || bytes == 0) return;
  GANTRY_DEBUG_ASSERT(bytes <= landed_);
  const Bytes chunk = received_.place.chunk_bytes;
  const std::uint64_t chunks = (bytes + chunk - 1) / chunk;
  passed_ = chunks * chunk;
  payloads_->pass_chunks(received_.header.slot, info_.sequence, chunks);
}

// What lies in one piece of the window, from byte `offset` of the message on.
ConstByteSpan IncomingMessage::window_at(Bytes offset) const noexcept {
  GANTRY_DEBUG_ASSERT(offset <= landed_);
  const Place& place = received_.place;
  const Bytes in_chunk = offset % place.chunk_bytes;
  return segments_.front().bytes.subspan(offset % place.window_bytes,
                                         std::min(landed_ - offset, place.chunk_bytes - in_chunk));
}

// Chunks of a stream that have passed are nowhere any more.
Result<void> IncomingMessage::seek(Bytes offset) {
  GANTRY_DEBUG_ASSERT(offset <= total_);
  if (offset == taken_) return {};
  if (is_streamed() && !gathered_)
    return fail(Code::invalid_argument,
                fmt::format("{}: {} of its bytes have passed already", name(), taken_),
                "go on as you began: into() or receive_into() with the same buffer, or next()");
  taken_ = in_segment_ = offset;
  segment_ = 0;
  if (gathered_) return {};
  while (segment_ + 1 < segments_.size() && in_segment_ >= segments_[segment_].bytes.size())
    in_segment_ -= segments_[segment_++].bytes.size();
  return {};
}

Result<void> IncomingMessage::start_over() {
  GANTRY_TRY(seek(0));
  half_way_from_.reset();
  conversion_.reset();
  return {};
}

Result<void> IncomingMessage::leave_half_way() {
  if (!half_way_from_) return {};
  GANTRY_TRY(seek(*half_way_from_));
  half_way_from_.reset();
  conversion_.reset();
  return {};
}

Result<ConstByteSpan> IncomingMessage::take() {
  if (gathered_) GANTRY_TRY(gather());
  ConstByteSpan bytes;
  if (gathered_) {
    bytes = gathered_->front().subspan(taken_);
  } else if (is_streamed()) {
    bytes = window_at(taken_);
  } else {
    while (in_segment_ == segments_[segment_].bytes.size()) {
      GANTRY_DEBUG_ASSERT(segment_ + 1 < segments_.size());
      ++segment_;
      in_segment_ = 0;
    }
    const ConstByteSpan rest = segments_[segment_].bytes.subspan(in_segment_);
    bytes = rest.first(std::min(landed_ - taken_, rest.size()));
  }
  taken_ += bytes.size();
  in_segment_ += bytes.size();
  GANTRY_DEBUG_ASSERT(taken_ <= landed_);
  GANTRY_STEP(chunk_handed_out);
  return bytes;
}

Result<void> IncomingMessage::check_prefix(Bytes bytes) const {
  if ((is_streamed() || segments_.size() == 1) && bytes <= total_) return {};
  if (bytes > total_)
    return fail(Code::invalid_argument,
                fmt::format("{} has {} bytes; {} can never land", name(), total_, bytes));
  return fail(Code::invalid_argument,
              fmt::format("{} has several segments, so its first {} bytes are never in one place",
                          name(), bytes),
              "take it chunk by chunk, next(), or all of it, whole()");
}

Result<Bytes> IncomingMessage::begin_copy(ByteSpan destination) {
  const Bytes from = half_way_from_.value_or(taken_);
  const Bytes rest = total_ - from;
  if (rest > destination.size())
    return fail(
        Code::invalid_argument,
        fmt::format("{} has {} bytes left, the buffer {}", name(), rest, destination.size()),
        "pass a larger buffer, or receive() the message where it lies");
  if (conversion_ || destination.data() != copied_to_) GANTRY_TRY(leave_half_way());
  half_way_from_ = from;
  copied_to_ = destination.data();
  return from;
}

void IncomingMessage::copy_chunk(ConstByteSpan chunk, std::byte* to) noexcept {
  const std::uint64_t started = read_ticks();
  std::memcpy(to, chunk.data(), chunk.size());
  if (payloads_) core().counters->copy(CopyEngine::inline_, chunk.size(), read_ticks() - started);
}

Result<void> IncomingMessage::begin_conversion(ByteSpan destination, const ReshapePlan& plan) {
  if (plan.source_bytes() > total_ ||
      total_ - plan.source_bytes() > shape::gap_behind(plan.source()))
    return fail(Code::invalid_argument,
                fmt::format("{} has {} bytes, the plan reads {}: {}", name(), total_,
                            plan.source_bytes(), plan.text()),
                "make a plan for all of it, or receive it as it is");
  if (const auto sent = tensor(); sent && !shape::is_alike(plan.source(), *sent))
    return fail(Code::invalid_argument,
                fmt::format("{} is a tensor of {}, not the one that the plan reads: {}", name(),
                            to_string(sent->type), plan.text()),
                "make a plan for the tensor that Incoming::tensor() returns");
  if (plan.destination_bytes() > destination.size())
    return fail(Code::invalid_argument,
                fmt::format("{} becomes {} bytes, the buffer has {}", name(),
                            plan.destination_bytes(), destination.size()),
                "pass a larger buffer");
  if (conversion_ && conversion_->is(plan, destination)) return {};
  const Bytes from = half_way_from_.value_or(taken_);
  GANTRY_TRY(seek(0));
  conversion_.emplace(plan, destination);
  half_way_from_ = from;
  return {};
}

void IncomingMessage::end_into() noexcept {
  pass_taken();
  half_way_from_.reset();
  conversion_.reset();
}

Result<void> IncomingMessage::convert_whole(ByteSpan destination, const ReshapePlan& plan) const {
  if (!gathered_ && segments_.size() > 1)
    return fail(Code::invalid_argument,
                fmt::format("{} has several segments, so it is never in one place", name()),
                "take it as a message, and convert its segments");
  const ConstByteSpan all = gathered_ ? gathered_->front() : segments_.front().bytes;
  plan.convert(destination.first(plan.destination_bytes()), all);
  return {};
}

// ---- as a whole ------------------------------------------------------------------------------

Result<void> IncomingMessage::gather() {
  GANTRY_TRY(check_end_is_open());
  if (!gathered_) {
    if (taken_ != 0) return seek(0);
    auto charge = payloads_->charge_gathered(total_);
    if (!charge)
      return fail(Code::too_large,
                  fmt::format("channel '{}': message {} is streamed and has {} bytes: {}",
                              core().name, info_.sequence, total_, charge.error().message),
                  charge.error().hint);
    auto gathered = std::make_shared<GatheredPayload>(total_, std::move(*charge));
    if (!gathered->has_memory())
      return fail(Code::too_large,
                  fmt::format("{} has {} bytes, more than this process can hold", name(), total_),
                  "take it chunk by chunk: Consumer::receive_early()");
    gathered_ = std::move(gathered);
  }
  // A producer that keeps up with us would keep us here.
  const Bytes end = std::min(landed(), gathered_bytes() + kGatheredAtOnce);
  while (gathered_bytes() < end) {
    gathered_->add(window_at(gathered_bytes()));
    pass(gathered_bytes());
  }
  return {};
}

Result<bool> IncomingMessage::try_front(Bytes bytes) {
  GANTRY_TRY(check_is_here());
  if (!is_streamed()) return landed() >= bytes;
  GANTRY_TRY(gather());
  return gathered_bytes() >= bytes;
}

// What it throws leaves everything as it was.
Message IncomingMessage::become_message() {
  GANTRY_ASSERT(!is_over_);
  if (message_) {
    is_over_ = true;
    return std::move(*message_);
  }
  if (is_streamed()) {
    GANTRY_ASSERT(gathered_bytes() == total_);
    const ConstByteSpan bytes = gathered_->front();
    std::unique_ptr<std::vector<Segment>> segments;
    if (segments_.front().tensor)
      segments =
          std::make_unique<std::vector<Segment>>(1, Segment{bytes, segments_.front().tensor});
    is_over_ = true;
    core().counters->copy(CopyEngine::inline_, bytes.size(), 0);
    release();
    Message message(std::move(gathered_), 0, bytes, info_);
    if (segments) message.set_segments(std::move(segments));
    return message;
  }
  std::unique_ptr<std::vector<Segment>> segments;
  if (received_.lies() == PayloadLocation::table)
    segments = std::make_unique<std::vector<Segment>>(segments_);
  is_over_ = true;
  const std::uint64_t token = token_of(received_.header.slot, info_.sequence);
  Message message(std::move(payloads_), token, segments_.front().bytes, info_);
  if (segments) message.set_segments(std::move(segments));
  return message;
}

}  // namespace gantry
