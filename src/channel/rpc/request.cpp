#include <algorithm>

#include "base/clock.hpp"
#include "base/moved_from.hpp"
#include "channel/rpc/server.hpp"
#include "channel/wire/step.hpp"

// A request in its server's hands.
namespace gantry {

// The client is told; a client that has no room even for that would wait for ever.
Request::Impl::~Impl() {
  if (!client_->check_process()) return;  // a fork's copy
  if (!answered_ && !is_unwanted() && !has_expired()) {
    const auto told = guarded([&] { return refuse(why_dropped()); });
    if (!told && told.error().code == Code::timed_out)
      client_->with_replies([](Producer::Impl& replies) { replies.shut_down(); });
  }
  client_->end(correlation());
  GANTRY_STEP(request_ended);
}

// Few enough letters that they need no slot.
Error Request::Impl::why_dropped() const {
  if (!found_no_place_) return {Code::aborted, "the server dropped the request", ""};
  return {Code::aborted, "dropped: this client holds all its replies", "let go of some"};
}

std::chrono::nanoseconds Request::Impl::remaining() const noexcept {
  const std::uint64_t until = message_.info().deadline_ns;
  if (until == 0) return std::chrono::nanoseconds::max();
  const std::uint64_t now = monotonic_ns();
  constexpr auto kMost = static_cast<std::uint64_t>(std::chrono::nanoseconds::max().count());
  return std::chrono::nanoseconds(until > now ? std::min(until - now, kMost) : 0);
}

bool Request::Impl::is_cancelled() {
  if (is_unwanted() || has_expired()) return true;
  const auto server = server_.lock();
  if (!server) return true;
  server->look();
  return is_unwanted();
}

template <class Send>
Result<void> Request::Impl::answer(const ReplyOptions& options, RpcKind kind, Send send) {
  GANTRY_TRY(client_->check_process());
  if (answered_)
    return fail(Code::invalid_argument, fmt::format("request {} has been answered", correlation()));
  if (client_->is_gone()) {
    answered_ = true;
    return fail(Code::peer_gone, fmt::format("the client (process {}) is gone", sender().pid));
  }
  SendOptions sending;
  sending.deadline = options.deadline;
  sending.type = options.type;
  sending.user = static_cast<std::uint64_t>(kind);
  sending.correlation = correlation();
  if (kind == RpcKind::reply) sending.as = client_->as();
  Result<void> sent = client_->with_replies(
      [&](Producer::Impl& replies) -> Result<void> { return send(replies, sending); });
  answered_ = sent || sent.error().code == Code::peer_gone;
  found_no_place_ |= !sent && sent.error().code == Code::timed_out;
  GANTRY_STEP(request_answered);
  return sent;
}

Result<Loan> Request::Impl::loan(Bytes size, Deadline deadline) {
  GANTRY_TRY(client_->check_process());
  return client_->with_replies(
      [&](Producer::Impl& replies) { return replies.loan(size, deadline); });
}

Result<void> Request::Impl::refuse(const Error& error) {
  const Refusal refusal{static_cast<std::uint32_t>(error.code)};
  std::string words(reinterpret_cast<const char*>(&refusal), sizeof refusal);
  words += to_string(error).substr(0, kMaxRefusalText);
  return answer({}, RpcKind::refusal, [&](Producer::Impl& replies, const SendOptions& options) {
    return replies.send(std::as_bytes(std::span(words)), options);
  });
}

// ---- as its users see it -------------------------------------------------------------------

static const Message kNothing{};  // of empty ones

Request::Request() noexcept = default;
Request::Request(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Request::Request(Request&&) noexcept = default;
Request& Request::operator=(Request&&) noexcept = default;
Request::~Request() = default;

const Message& Request::message() const noexcept {
  return impl_ ? impl_->message() : kNothing;
}
const Sender& Request::sender() const noexcept {
  static constexpr Sender kNobody;
  return impl_ ? impl_->sender() : kNobody;
}
std::uint64_t Request::correlation() const noexcept {
  return impl_ ? impl_->correlation() : 0;
}
std::chrono::nanoseconds Request::remaining() const noexcept {
  return impl_ ? impl_->remaining() : std::chrono::nanoseconds(0);
}
bool Request::is_cancelled() {
  return !impl_ || impl_->is_cancelled();
}

Result<void> Request::reply(ConstByteSpan payload, const ReplyOptions& options) {
  return guarded_on(impl_, "Request", [&]() -> Result<void> {
    return impl_->answer(
        options, RpcKind::reply,
        [&](Producer::Impl& replies, const SendOptions& as) { return replies.send(payload, as); });
  });
}
Result<void> Request::reply(Draft draft, const ReplyOptions& options) {
  return guarded_on(impl_, "Request", [&]() -> Result<void> {
    return impl_->answer(options, RpcKind::reply,
                         [&](Producer::Impl& replies, const SendOptions& as) {
                           return replies.send(std::move(draft.parts()), as);
                         });
  });
}
Result<Loan> Request::loan(Bytes size, Deadline deadline) {
  return guarded_on(impl_, "Request", [&] { return impl_->loan(size, deadline); });
}
Result<void> Request::reply(Loan loan, const ReplyOptions& options) {
  return guarded_on(impl_, "Request", [&]() -> Result<void> {
    return impl_->answer(options, RpcKind::reply,
                         [&](Producer::Impl& replies, const SendOptions& as) {
                           return replies.publish(std::move(loan), as);
                         });
  });
}
Result<void> Request::refuse(const Error& error) {
  return guarded_on(impl_, "Request", [&] { return impl_->refuse(error); });
}

}  // namespace gantry
