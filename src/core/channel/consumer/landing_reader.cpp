#include "core/channel/consumer/landing_reader.hpp"

#include "core/base/moved_from.hpp"

namespace gantry {

Result<void> LandingReader::await(Bytes bytes, Deadline deadline) {
  GANTRY_TRY(message_.check_end_is_open());
  const auto settled = [this, bytes] { return message_.is_settled(bytes); };
  if (!settled()) GANTRY_TRY(waiter_->wait_for_landing(message_.size(), deadline, settled));
  return message_.check_landed(bytes);
}

// With some of it perhaps there: whoever sleeps on event_descriptor() is to look once more.
Error LandingReader::not_in_time() const {
  waiter_->rouse();
  return {Code::timed_out, message_.name() + " did not land in time", ""};
}

Result<ConstByteSpan> LandingReader::next(Deadline deadline) {
  GANTRY_TRY(message_.check_is_here());
  GANTRY_TRY(message_.leave_half_way());
  return take_next(deadline);
}

Result<ConstByteSpan> LandingReader::take_next(Deadline deadline) {
  message_.pass_taken();
  if (message_.taken() == message_.size()) return ConstByteSpan();
  GANTRY_TRY(await(message_.taken() + 1, deadline));
  return message_.take();
}

Result<ConstByteSpan> LandingReader::wait_for(Bytes bytes, Deadline deadline) {
  GANTRY_TRY(message_.check_is_here());
  GANTRY_TRY(message_.check_prefix(bytes));
  GANTRY_TRY(message_.is_streamed() ? await_front(bytes, deadline) : await(bytes, deadline));
  return message_.prefix();
}

Result<Bytes> LandingReader::into(ByteSpan destination, Deadline deadline) {
  GANTRY_TRY(message_.check_is_here());
  GANTRY_ASSIGN(const Bytes from, message_.begin_copy(destination));
  for (LateLooks looks; message_.taken() < message_.size();) {
    if (message_.is_streamed() && looks.are_spent(deadline)) return tl::unexpected(not_in_time());
    std::byte* const to = destination.data() + (message_.taken() - from);
    GANTRY_ASSIGN(const ConstByteSpan chunk, take_next(deadline));
    message_.copy_chunk(chunk, to);
  }
  message_.end_into();
  return message_.size() - from;
}

Result<Bytes> LandingReader::into(ByteSpan destination, const ReshapePlan& plan,
                                  Deadline deadline) {
  GANTRY_TRY(message_.check_is_here());
  GANTRY_TRY(message_.begin_conversion(destination, plan));
  if (plan.kind() == ReshapeClass::permuting) {
    GANTRY_TRY(await_front(message_.size(), deadline));
    GANTRY_TRY(message_.convert_whole(destination, plan));
  } else {
    for (LateLooks looks; message_.taken() < message_.size();) {
      if (message_.is_streamed() && looks.are_spent(deadline)) return tl::unexpected(not_in_time());
      GANTRY_ASSIGN(const ConstByteSpan chunk, take_next(deadline));
      message_.convert_chunk(chunk);
    }
  }
  message_.end_into();
  return plan.destination_bytes();
}

Result<void> LandingReader::await_front(Bytes bytes, Deadline deadline) {
  for (LateLooks looks;;) {
    GANTRY_ASSIGN(const bool there, message_.try_front(bytes));
    if (there) return {};
    if (looks.are_spent(deadline)) return tl::unexpected(not_in_time());
    GANTRY_TRY(await(message_.next_for_front(bytes), deadline));
  }
}

Result<Message> LandingReader::whole(Deadline deadline) {
  GANTRY_TRY(await_front(message_.size(), deadline));
  return message_.become_message();
}

// ---- the handle ------------------------------------------------------------------------------

Incoming::Incoming() noexcept = default;
Incoming::Incoming(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Incoming::Incoming(Incoming&&) noexcept = default;
Incoming& Incoming::operator=(Incoming&&) noexcept = default;
Incoming::~Incoming() = default;

const MessageInfo& Incoming::info() const noexcept {
  static constexpr MessageInfo kNone;
  return impl_ ? impl_->message.info() : kNone;
}
Bytes Incoming::size() const noexcept {
  return impl_ ? impl_->message.size() : 0;
}
Bytes Incoming::landed() const noexcept {
  return impl_ ? impl_->message.landed() : 0;
}
bool Incoming::is_streamed() const noexcept {
  return impl_ && impl_->message.is_streamed();
}

namespace {

LandingReader reader_of(Incoming::Impl& incoming) noexcept {
  return {incoming.waiter.get(), incoming.message};
}

}  // namespace

Result<ConstByteSpan> Incoming::next(Deadline deadline) {
  return guarded_on(impl_, "Incoming", [&] { return reader_of(*impl_).next(deadline); });
}
Result<ConstByteSpan> Incoming::wait_for(Bytes bytes, Deadline deadline) {
  return guarded_on(impl_, "Incoming", [&] { return reader_of(*impl_).wait_for(bytes, deadline); });
}
Result<Bytes> Incoming::into(ByteSpan destination, Deadline deadline) {
  return guarded_on(impl_, "Incoming",
                    [&] { return reader_of(*impl_).into(destination, deadline); });
}
Result<Bytes> Incoming::into(ByteSpan destination, const ReshapePlan& plan, Deadline deadline) {
  return guarded_on(impl_, "Incoming",
                    [&] { return reader_of(*impl_).into(destination, plan, deadline); });
}
std::optional<Tensor> Incoming::tensor() const noexcept {
  return impl_ ? impl_->message.tensor() : std::nullopt;
}
Result<Message> Incoming::whole(Deadline deadline) {
  return guarded_on(impl_, "Incoming", [&] {
    auto message = reader_of(*impl_).whole(deadline);
    if (message) impl_->waiter.reset();  // nothing more is waited for: it is the message that stays
    return message;
  });
}

}  // namespace gantry
