#include "channel/incoming.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/clock.hpp"
#include "channel/step.hpp"

namespace gantry {

Incoming::Impl::Impl(std::shared_ptr<Consumer::Impl> consumer, const Arrival& arrival,
                     std::vector<Segment> segments)
    : consumer_(std::move(consumer)),
      arrival_(arrival),
      info_(arrival.info()),
      segments_(std::move(segments)) {
  if (arrival_.is_streamed())
    total_ = arrival_.place.bytes;
  else
    for (const Segment& segment : segments_) total_ += segment.bytes.size();
  if (!arrival_.is_landing()) landed_ = total_;
}

Incoming::Impl::Impl(Message whole) : arrival_{}, info_(whole.info()), message_(std::move(whole)) {
  for (std::size_t i = 0; i < message_->segments(); ++i) segments_.push_back(message_->segment(i));
  for (const Segment& segment : segments_) total_ += segment.bytes.size();
  landed_ = total_;
}

void Incoming::Impl::release() noexcept {
  if (consumer_) consumer_->give_back(token_of(arrival_.header.slot, info_.sequence));
  consumer_.reset();
}

Bytes Incoming::Impl::landed() noexcept {
  if (landed_ == total_ || aborted_ || !consumer_ || consumer_->has_left()) return landed_;
  const std::uint64_t word = consumer_->landing_word(arrival_.header.slot);
  const Bytes bytes = word & ~LandingWord::kAborted;
  // What goes backwards or beyond is no honest producer's: to us the message ends here.
  if (bytes < landed_ || bytes > total_) {
    static_cast<void>(consumer_->misbehaved(
        fmt::format("{} of {} bytes landed after {}", bytes, total_, landed_)));
    aborted_ = true;
    return landed_;
  }
  landed_ = bytes;
  aborted_ = (word & LandingWord::kAborted) != 0;
  return landed_;
}

// The producer waits for nobody who left: what was not there by then does not come, and a stream's
// window is filled anew.
Result<void> Incoming::Impl::check_line() const {
  if (!consumer_ || !consumer_->has_left() || (landed_ == total_ && !is_streamed())) return {};
  return fail(Code::closed,
              fmt::format("channel '{}': its consumer was closed before message {} had landed",
                          consumer_->name(), info_.sequence));
}

Result<void> Incoming::Impl::await(Bytes bytes, Deadline deadline) {
  GANTRY_TRY(check_line());
  if (landed() < bytes && !aborted_)
    GANTRY_TRY(
        consumer_->wait_for_landing(deadline, [&] { return landed() >= bytes || aborted_; }));
  if (landed_ >= bytes) return {};
  return fail(Code::aborted,
              fmt::format("channel '{}': the sender gave message {} up after {} of {} bytes",
                          consumer_->name(), info_.sequence, landed_, total_));
}

// A streamed message: whole chunks before taken_ are not needed any more.
void Incoming::Impl::pass() noexcept {
  if (!is_streamed() || !consumer_ || taken_ == 0) return;
  const Bytes chunk = arrival_.place.chunk_bytes;
  consumer_->pass_chunks(arrival_.header.slot, info_.sequence, (taken_ + chunk - 1) / chunk);
}

// What lies in one piece from taken_ on.
ConstByteSpan Incoming::Impl::contiguous() noexcept {
  const Bytes there = landed_ - taken_;
  if (is_streamed()) {
    const Place& place = arrival_.place;
    const Bytes in_chunk = taken_ % place.chunk_bytes;
    return segments_.front().bytes.subspan(taken_ % place.window_bytes,
                                           std::min(there, place.chunk_bytes - in_chunk));
  }
  while (in_segment_ == segments_[segment_].bytes.size()) {
    ++segment_;
    in_segment_ = 0;
  }
  const ConstByteSpan rest = segments_[segment_].bytes.subspan(in_segment_);
  return rest.first(std::min(there, rest.size()));
}

Result<ConstByteSpan> Incoming::Impl::next(Deadline deadline) {
  pass();
  if (taken_ == total_) return ConstByteSpan();
  GANTRY_TRY(await(taken_ + 1, deadline));
  const ConstByteSpan bytes = contiguous();
  taken_ += bytes.size();
  in_segment_ += bytes.size();
  GANTRY_STEP(chunk_handed_out);
  return bytes;
}

Result<ConstByteSpan> Incoming::Impl::wait_for(Bytes bytes, Deadline deadline) {
  if (is_streamed() || segments_.size() != 1 || bytes > total_)
    return fail(
        Code::invalid_argument,
        fmt::format("channel '{}': waiting for {} of {} bytes of a message that is {}",
                    consumer_->name(), bytes, total_,
                    is_streamed() ? "streamed" : "not long enough, or of several segments"));
  GANTRY_TRY(await(bytes, deadline));
  return segments_.front().bytes.first(landed_);
}

Result<Bytes> Incoming::Impl::into(ByteSpan destination, Deadline deadline) {
  const Bytes from = into_from_.value_or(taken_);
  const Bytes rest = total_ - from;
  if (rest > destination.size())
    return fail(Code::invalid_argument, fmt::format("message {} has {} bytes left, the buffer {}",
                                                    info_.sequence, rest, destination.size()));
  into_from_ = from;
  while (taken_ < total_) {
    std::byte* const to = destination.data() + (taken_ - from);
    GANTRY_ASSIGN(const ConstByteSpan chunk, next(deadline));
    const std::uint64_t started = read_ticks();
    std::memcpy(to, chunk.data(), chunk.size());
    if (consumer_) consumer_->note_copy(chunk.size(), read_ticks() - started);
  }
  pass();
  into_from_.reset();
  return rest;
}

Result<void> Incoming::Impl::gather() {
  GANTRY_TRY(check_line());
  if (!gathered_) {
    if (taken_ != 0)
      return fail(Code::invalid_argument,
                  fmt::format("chunks of message {} have passed already", info_.sequence));
    // Not touched before it lands: a claim alone costs no memory.
    gathered_.reset(new (std::nothrow) std::byte[total_]);
    if (!gathered_)
      return fail(Code::too_large,
                  fmt::format("message {} has {} bytes, more than this process can hold",
                              info_.sequence, total_),
                  "take it chunk by chunk: Consumer::receive_early()");
  }
  while (taken_ < landed()) {
    const ConstByteSpan chunk = contiguous();
    std::memcpy(gathered_.get() + taken_, chunk.data(), chunk.size());
    taken_ += chunk.size();
    pass();
  }
  return {};
}

Result<bool> Incoming::Impl::try_whole() {
  if (!is_streamed()) return is_whole();
  GANTRY_TRY(gather());
  return taken_ == total_;
}

Result<Message> Incoming::Impl::whole(Deadline deadline) {
  for (;;) {
    GANTRY_ASSIGN(const bool there, try_whole());
    if (there) return become_message();
    GANTRY_TRY(await(is_streamed() ? taken_ + 1 : total_, deadline));
  }
}

namespace {

/// Keeps what was gathered for as long as its message.
class Gathered final : public detail::Keeper {
 public:
  explicit Gathered(std::unique_ptr<std::byte[]> bytes) : bytes_(std::move(bytes)) {}
  void give_back(std::uint64_t) noexcept override {}

 private:
  std::unique_ptr<std::byte[]> bytes_;  // NOLINT: of a size that the message knows
};

}  // namespace

Message Incoming::Impl::become_message() {
  if (message_) return std::move(*message_);
  if (is_streamed()) {
    const ConstByteSpan bytes(gathered_.get(), total_);
    consumer_->note_copy(bytes.size(), 0);
    release();
    return {std::make_shared<Gathered>(std::move(gathered_)), 0, bytes, info_};
  }
  const std::uint64_t token = token_of(arrival_.header.slot, info_.sequence);
  Message message(std::move(consumer_), token, segments_.front().bytes, info_);
  if (arrival_.lies() == Lies::table)
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
Result<ConstByteSpan> Incoming::next(Deadline deadline) {
  return impl_->next(deadline);
}
Result<ConstByteSpan> Incoming::wait_for(Bytes bytes, Deadline deadline) {
  return impl_->wait_for(bytes, deadline);
}
Result<Bytes> Incoming::into(ByteSpan destination, Deadline deadline) {
  return impl_->into(destination, deadline);
}
Result<Message> Incoming::whole(Deadline deadline) {
  return impl_->whole(deadline);
}

}  // namespace gantry
