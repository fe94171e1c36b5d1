#include "channel/consumer/incoming.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/clock.hpp"
#include "channel/wire/step.hpp"

namespace gantry {

Incoming::Impl::Impl(std::shared_ptr<Consumer::Impl> consumer, const ReceivedRecord& received,
                     std::vector<Segment> segments)
    : consumer_(std::move(consumer)),
      received_(received),
      info_(received.info()),
      segments_(std::move(segments)) {
  if (received_.is_streamed())
    total_ = received_.place.bytes;
  else
    for (const Segment& segment : segments_) total_ += segment.bytes.size();
  if (!received_.is_landing()) landed_ = total_;
}

Incoming::Impl::Impl() : received_{} {
  segments_.reserve(1);
}

// Without a heap: the message is out of the ring.
void Incoming::Impl::fill(Message small) noexcept {
  info_ = small.info();
  message_ = std::move(small);
  for (std::size_t i = 0; i < message_->segments(); ++i) segments_.push_back(message_->segment(i));
  for (const Segment& segment : segments_) total_ += segment.bytes.size();
  landed_ = total_;
}

void Incoming::Impl::release() noexcept {
  if (consumer_) consumer_->give_back(token_of(received_.header.slot, info_.sequence));
  consumer_.reset();
}

Bytes Incoming::Impl::landed() noexcept {
  if (landed_ == total_ || aborted_ || !consumer_ || consumer_->has_left()) return landed_;
  const auto word = consumer_->landing_word(received_.header.slot, received_.header.number);
  if (!word) {
    consumer_->note_cut_off();
    aborted_ = true;
    return landed_;
  }
  const Bytes bytes = *word & ~LandingWord::kAborted;
  // What goes backwards or beyond is no honest producer's: to us the message ends here.
  const Bytes most =
      is_streamed() ? std::min(total_, passed_ + received_.place.window_bytes) : total_;
  if (bytes < landed_ || bytes > most) {
    static_cast<void>(consumer_->misbehaved(
        fmt::format("{} of {} bytes landed after {}", bytes, total_, landed_)));
    aborted_ = true;
    return landed_;
  }
  landed_ = bytes;
  aborted_ = (*word & LandingWord::kAborted) != 0;
  return landed_;
}

// The producer waits for nobody who left: what was not there by then does not come, and a stream's
// window is filled anew.
Result<void> Incoming::Impl::check_consumer() const {
  if (!consumer_ || !consumer_->has_left() || (landed_ == total_ && !is_streamed())) return {};
  return fail(Code::closed,
              fmt::format("channel '{}': its consumer was closed before message {} had landed",
                          consumer_->name(), info_.sequence));
}

Result<void> Incoming::Impl::await(Bytes bytes, Deadline deadline) {
  GANTRY_TRY(check_consumer());
  if (landed() < bytes && !aborted_)
    GANTRY_TRY(
        consumer_->wait_for_landing(deadline, [&] { return landed() >= bytes || aborted_; }));
  if (landed_ >= bytes) return {};
  if (consumer_->why_broken()) return tl::unexpected(*consumer_->why_broken());
  return fail(Code::aborted,
              fmt::format("channel '{}': the sender gave message {} up after {} of {} bytes",
                          consumer_->name(), info_.sequence, landed_, total_));
}

std::string Incoming::Impl::name() const {
  return consumer_ ? fmt::format("channel '{}': message {}", consumer_->name(), info_.sequence)
                   : fmt::format("message {}", info_.sequence);
}

// With some of it perhaps there: whoever sleeps on event_descriptor() is to look once more.
Error Incoming::Impl::not_in_time() const {
  if (consumer_) consumer_->rouse();
  return {Code::timed_out, name() + " did not land in time", ""};
}

Result<void> Incoming::Impl::check_is_here() const {
  if (consumer_) GANTRY_TRY(consumer_->check_process());
  if (!is_over_) return {};
  return fail(Code::invalid_argument, name() + " was handed over by whole() already");
}

// Of a streamed message: its first `bytes` are not needed any more.
void Incoming::Impl::pass(Bytes bytes) noexcept {
  if (!is_streamed() || !consumer_ || bytes == 0) return;
  const Bytes chunk = received_.place.chunk_bytes;
  const std::uint64_t chunks = (bytes + chunk - 1) / chunk;
  passed_ = chunks * chunk;
  consumer_->pass_chunks(received_.header.slot, info_.sequence, chunks);
}

// What lies in one piece of the window, from byte `offset` of the message on.
ConstByteSpan Incoming::Impl::window_at(Bytes offset) const noexcept {
  const Place& place = received_.place;
  const Bytes in_chunk = offset % place.chunk_bytes;
  return segments_.front().bytes.subspan(offset % place.window_bytes,
                                         std::min(landed_ - offset, place.chunk_bytes - in_chunk));
}

// What lies in one piece from taken_ on.
ConstByteSpan Incoming::Impl::contiguous() noexcept {
  if (gathered_) return {gathered_.get() + taken_, gathered_bytes_ - taken_};
  if (is_streamed()) return window_at(taken_);
  while (in_segment_ == segments_[segment_].bytes.size()) {
    ++segment_;
    in_segment_ = 0;
  }
  const ConstByteSpan rest = segments_[segment_].bytes.subspan(in_segment_);
  return rest.first(std::min(landed_ - taken_, rest.size()));
}

// Chunks of a stream that have passed are nowhere any more.
Result<void> Incoming::Impl::seek(Bytes offset) {
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

Result<void> Incoming::Impl::start_over() {
  GANTRY_TRY(seek(0));
  into_from_.reset();
  return {};
}

Result<ConstByteSpan> Incoming::Impl::next(Deadline deadline) {
  GANTRY_TRY(check_is_here());
  if (!gathered_) pass(taken_);
  if (taken_ == total_) return ConstByteSpan();
  GANTRY_TRY(await(taken_ + 1, deadline));
  if (gathered_) GANTRY_TRY(gather());
  const ConstByteSpan bytes = contiguous();
  taken_ += bytes.size();
  in_segment_ += bytes.size();
  GANTRY_STEP(chunk_handed_out);
  return bytes;
}

Result<ConstByteSpan> Incoming::Impl::wait_for(Bytes bytes, Deadline deadline) {
  GANTRY_TRY(check_is_here());
  if (is_streamed() || segments_.size() != 1 || bytes > total_)
    return fail(
        Code::invalid_argument,
        fmt::format("{}: waiting for {} of {} bytes of one that is {}", name(), bytes, total_,
                    is_streamed() ? "streamed" : "not long enough, or of several segments"));
  GANTRY_TRY(await(bytes, deadline));
  return segments_.front().bytes.first(landed_);
}

Result<Bytes> Incoming::Impl::into(ByteSpan destination, Deadline deadline) {
  GANTRY_TRY(check_is_here());
  const Bytes from = into_from_.value_or(taken_);
  const Bytes rest = total_ - from;
  if (rest > destination.size())
    return fail(Code::invalid_argument, fmt::format("{} has {} bytes left, the buffer {}", name(),
                                                    rest, destination.size()));
  if (into_from_ && destination.data() != into_to_) GANTRY_TRY(seek(from));
  into_from_ = from;
  into_to_ = destination.data();
  for (LateLooks looks; taken_ < total_;) {
    if (is_streamed() && looks.are_spent(deadline)) return tl::unexpected(not_in_time());
    std::byte* const to = destination.data() + (taken_ - from);
    GANTRY_ASSIGN(const ConstByteSpan chunk, next(deadline));
    const std::uint64_t started = read_ticks();
    std::memcpy(to, chunk.data(), chunk.size());
    if (consumer_) consumer_->note_copy(chunk.size(), read_ticks() - started);
  }
  if (!gathered_) pass(taken_);
  into_from_.reset();
  return rest;
}

Result<void> Incoming::Impl::gather() {
  GANTRY_TRY(check_consumer());
  if (!gathered_) {
    if (taken_ != 0) return seek(0);
    auto charge = consumer_->charge_gathered(total_);
    if (!charge)
      return fail(Code::too_large,
                  fmt::format("channel '{}': message {} is streamed and has {} bytes: {}",
                              consumer_->name(), info_.sequence, total_, charge.error().message),
                  charge.error().hint);
    // Not touched before it lands: a claim alone costs no memory.
    gathered_.reset(new (std::nothrow) std::byte[total_]);
    if (!gathered_)
      return fail(Code::too_large,
                  fmt::format("message {} has {} bytes, more than this process can hold",
                              info_.sequence, total_),
                  "take it chunk by chunk: Consumer::receive_early()");
    gathered_charge_ = std::move(*charge);
  }
  // A producer that keeps up with us would keep us here.
  const Bytes end = std::min(landed(), gathered_bytes_ + kGatheredAtOnce);
  while (gathered_bytes_ < end) {
    const ConstByteSpan chunk = window_at(gathered_bytes_);
    std::memcpy(gathered_.get() + gathered_bytes_, chunk.data(), chunk.size());
    gathered_bytes_ += chunk.size();
    pass(gathered_bytes_);
  }
  return {};
}

Result<bool> Incoming::Impl::try_whole() {
  GANTRY_TRY(check_is_here());
  if (!is_streamed()) return is_whole();
  GANTRY_TRY(gather());
  return gathered_bytes_ == total_;
}

Result<Message> Incoming::Impl::whole(Deadline deadline) {
  for (LateLooks looks;;) {
    GANTRY_ASSIGN(const bool there, try_whole());
    if (there) return become_message();
    if (looks.are_spent(deadline)) return tl::unexpected(not_in_time());
    GANTRY_TRY(await(is_streamed() ? gathered_bytes_ + 1 : total_, deadline));
  }
}

namespace {

/// Keeps what was gathered for as long as its message.
class Gathered final : public detail::SlotOwner {
 public:
  Gathered(std::unique_ptr<std::byte[]> bytes, SenderQuota::Charge charge)
      : charge_(std::move(charge)), bytes_(std::move(bytes)) {}
  void give_back(std::uint64_t) noexcept override {}
  [[nodiscard]] bool is_immutable(std::uint64_t, ConstByteSpan) const override { return true; }

 private:
  SenderQuota::Charge charge_;
  std::unique_ptr<std::byte[]> bytes_;  // NOLINT: of a size that the message knows
};

}  // namespace

Message Incoming::Impl::become_message() {
  is_over_ = true;
  if (message_) return std::move(*message_);
  if (is_streamed()) {
    const ConstByteSpan bytes(gathered_.get(), total_);
    consumer_->note_copy(bytes.size(), 0);
    release();
    return {std::make_shared<Gathered>(std::move(gathered_), std::move(gathered_charge_)), 0, bytes,
            info_};
  }
  const std::uint64_t token = token_of(received_.header.slot, info_.sequence);
  Message message(std::move(consumer_), token, segments_.front().bytes, info_);
  if (received_.lies() == PayloadLocation::table)
    message.set_segments(std::make_unique<std::vector<Segment>>(std::move(segments_)));
  return message;
}

// ---- the handle ----------------------------------------------------------------------------

Incoming::Incoming() noexcept = default;
Incoming::Incoming(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Incoming::Incoming(Incoming&&) noexcept = default;
Incoming& Incoming::operator=(Incoming&&) noexcept = default;
Incoming::~Incoming() = default;

const MessageInfo& Incoming::info() const noexcept {
  return impl_->info();
}
Bytes Incoming::size() const noexcept {
  return impl_->size();
}
Bytes Incoming::landed() const noexcept {
  return impl_->landed();
}
bool Incoming::is_streamed() const noexcept {
  return impl_->is_streamed();
}
namespace {

tl::unexpected<Error> is_empty() {
  return fail(Code::invalid_argument, "an empty Incoming");
}

}  // namespace

Result<ConstByteSpan> Incoming::next(Deadline deadline) {
  if (!impl_) return is_empty();
  return guarded([&] { return impl_->next(deadline); });
}
Result<ConstByteSpan> Incoming::wait_for(Bytes bytes, Deadline deadline) {
  if (!impl_) return is_empty();
  return guarded([&] { return impl_->wait_for(bytes, deadline); });
}
Result<Bytes> Incoming::into(ByteSpan destination, Deadline deadline) {
  if (!impl_) return is_empty();
  return guarded([&] { return impl_->into(destination, deadline); });
}
Result<Message> Incoming::whole(Deadline deadline) {
  if (!impl_) return is_empty();
  return guarded([&] { return impl_->whole(deadline); });
}

}  // namespace gantry
