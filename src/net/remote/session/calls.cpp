#include "net/remote/session/calls.hpp"

#include <new>

#include "core/base/clock.hpp"
#include "core/base/result.hpp"
#include "net/link/turn.hpp"

namespace gantry {
namespace {

// Answers that are copied out of the service's memory, at most.
constexpr Bytes kMostCopied = Bytes{256} << 20;

CallKind kind_of(std::uint64_t user) noexcept {
  return user <= static_cast<std::uint64_t>(CallKind::refusal) ? static_cast<CallKind>(user)
                                                               : CallKind{};
}

/// Holds what a message's bytes lie in. `of`: the message there whose bytes they are; null: none.
class HeldBytes final : public detail::SlotOwner {
 public:
  HeldBytes(std::shared_ptr<const void> kept, const Message* of)
      : kept_(std::move(kept)), of_(of) {}
  void give_back(std::uint64_t) noexcept override {}
  [[nodiscard]] std::optional<detail::RegionSlice> where(std::uint64_t,
                                                         ConstByteSpan bytes) const override {
    if (of_ == nullptr || of_->owner() == nullptr) return std::nullopt;
    return of_->owner()->where(of_->token(), bytes);
  }

 private:
  const std::shared_ptr<const void> kept_;
  const Message* const of_;
};

Message message_over(std::shared_ptr<const void> kept, const Message* of,
                     std::vector<Segment> parts, const MessageInfo& info) {
  Message message(std::make_shared<HeldBytes>(std::move(kept), of), 0, parts.front().bytes, info);
  if (parts.size() > 1 || parts.front().tensor)
    message.set_segments(std::make_unique<std::vector<Segment>>(std::move(parts)));
  return message;
}

std::vector<Segment> parts_of(const Message& message) {
  std::vector<Segment> parts;
  for (std::size_t i = 0; i < message.segments(); ++i) parts.push_back(message.segment(i));
  return parts;
}

Message refusal_of(std::uint64_t number, const Error& why) {
  auto words = std::make_shared<const std::vector<std::byte>>(encode_refusal(why));
  const Segment part{*words, {}};
  return message_over(words, nullptr, {part}, info_of_call(CallKind::refusal, number));
}

/// Memory that is counted.
struct Copy {
  Copy(Bytes size, std::shared_ptr<Bytes> sum)
      : bytes(new(std::nothrow) std::byte[size]), size_(size), sum_(std::move(sum)) {
    *sum_ += size_;
  }
  ~Copy() { *sum_ -= size_; }
  const std::unique_ptr<std::byte[]> bytes;  // null: there is no memory

 private:
  const Bytes size_;
  const std::shared_ptr<Bytes> sum_;
};

std::shared_ptr<Copy> copy_of(std::vector<Segment>& parts, const std::shared_ptr<Bytes>& sum) {
  Bytes size = 0;
  for (const Segment& part : parts) size += part.bytes.size();
  if (*sum + size > kMostCopied) return nullptr;
  auto copy = std::make_shared<Copy>(size, sum);
  if (!copy->bytes) return nullptr;
  ByteSpan rest(copy->bytes.get(), size);
  for (Segment& part : parts) {
    std::ranges::copy(part.bytes, rest.begin());
    part.bytes = rest.first(part.bytes.size());
    rest = rest.subspan(part.bytes.size());
  }
  return copy;
}

// Nobody waits longer than this for anything.
constexpr std::uint64_t kLongest = std::uint64_t{1} << 62;

Deadline deadline_of(std::uint64_t deadline_ns) noexcept {
  if (deadline_ns == 0) return Deadline::never();
  const std::uint64_t now = monotonic_ns();
  const std::uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
  if (left >= kLongest) return Deadline::never();
  return Deadline::after(std::chrono::nanoseconds(left));
}

}  // namespace

// ---- in the caller's process ---------------------------------------------------------------

Result<Message> CallsTaken::take() {
  Result<Request> request = fail(Code::timed_out, "no request yet");
  if (next_) {
    request = *std::exchange(next_, std::nullopt);
  } else {
    request = server_->next(Deadline::now());
    if (!request && request.error().code != Code::timed_out)
      return tl::unexpected(std::move(request).error());
    if (!request || calls_.size() >= Client::kMaxCalls) note_unwanted();
  }
  if (!cancelled_.empty()) {  // I2
    if (request) next_ = std::move(*request);
    const std::uint64_t number = cancelled_.front();
    cancelled_.pop_front();
    return Message(ConstByteSpan(), info_of_call(CallKind::cancel, number));
  }
  if (!request) return tl::unexpected(std::move(request).error());
  return begin(*std::move(request));
}

Message CallsTaken::begin(Request request) {
  const auto kept = std::make_shared<Request>(std::move(request));
  calls_.emplace(++last_, kept);
  MessageInfo info = info_of_call(CallKind::request, last_);
  info.type = kept->message().info().type;
  info.deadline_ns = kept->message().info().deadline_ns;
  return message_over(kept, &kept->message(), parts_of(kept->message()), info);
}

// The bridge learns of a deadline from the request.
void CallsTaken::note_unwanted() {
  for (auto call = calls_.begin(); call != calls_.end();) {
    const auto next = std::next(call);
    if (call->second->is_cancelled()) {
      if (call->second->remaining().count() > 0) cancelled_.push_back(call->first);
      calls_.erase(call);
    }
    call = next;
  }
}

Result<void> CallsTaken::check(const RemoteHead& head, ConstByteSpan payload) {
  const CallKind kind = kind_of(head.info.user);
  const bool was_asked = head.info.correlation >= 1 && head.info.correlation <= last_;
  const bool is_answer =
      kind == CallKind::reply || (kind == CallKind::refusal && head.has_payload && head.is_plain());
  if (!was_asked || !is_answer)
    return fail(Code::peer_misbehaved,
                fmt::format("it answers what nobody asked (kind {}, call {} of {})", head.info.user,
                            head.info.correlation, last_));
  if (kind == CallKind::refusal) GANTRY_TRY(decode_refusal(payload));
  return {};
}

Result<Loan> CallsTaken::loan(const MessageInfo& info, Bytes size, Deadline deadline) {
  const auto call = calls_.find(info.correlation);
  if (call == calls_.end()) return fail(Code::not_found, "nobody waits for it any more");
  return call->second->loan(size, deadline);
}

template <class Work>
Result<void> CallsTaken::answer(std::uint64_t number, Work work) {
  const auto call = calls_.find(number);
  if (call == calls_.end()) return {};
  Result<void> answered = work(*call->second);
  if (!answered && answered.error().code != Code::peer_gone) return answered;
  calls_.erase(call);
  return {};
}

Result<void> CallsTaken::send(Loan& loan, const SendOptions& options) {
  return answer(options.correlation, [&](Request& request) {
    return request.reply(std::move(loan), {options.deadline, options.type});
  });
}

Result<void> CallsTaken::send(ConstByteSpan payload, const SendOptions& options) {
  return answer(options.correlation, [&](Request& request) -> Result<void> {
    if (kind_of(options.user) == CallKind::reply)
      return request.reply(payload, {options.deadline, options.type});
    GANTRY_ASSIGN(const Error why, decode_refusal(payload));
    return request.refuse(why);
  });
}

Result<void> CallsTaken::send(Draft draft, const SendOptions& options) {
  return answer(options.correlation, [&](Request& request) {
    return request.reply(std::move(draft), {options.deadline, options.type});
  });
}

Result<bool> CallsTaken::refuse(const MessageInfo& info, const Error& why) {
  const auto told = answer(info.correlation, [&](Request& request) { return request.refuse(why); });
  if (!told && told.error().code == Code::timed_out) return false;
  calls_.erase(info.correlation);
  return true;
}

// ---- at the bridge -------------------------------------------------------------------------

Result<Message> CallsMade::take() {
  if (ready_.empty()) look();
  if (!ready_.empty()) {
    Message next = std::move(ready_.front());
    ready_.pop_front();
    return next;
  }
  if (lost_) return tl::unexpected(*lost_);
  return fail(Code::timed_out, "no answer yet");
}

// What was answered before the service was lost counts.
void CallsMade::look() {
  note_lost();
  for (auto call = calls_.begin(); call != calls_.end();) {
    const auto next = std::next(call);
    if (call->second.pending.is_over()) {
      auto over = calls_.extract(call);
      settle(over.key(), std::move(over.mapped()));
    }
    call = next;
  }
}

void CallsMade::note_lost() {
  if (lost_) return;
  auto lives = client_.check();
  if (!lives) lost_ = std::move(lives).error();
}

// The caller ends calls past their deadline, and those that are lost with the service.
void CallsMade::settle(std::uint64_t number, Call call) {
  auto reply = call.pending.wait(Deadline::now());
  if (reply) return ready_.push_back(answer(number, *std::move(reply)));
  note_lost();  // the wait may have found out
  const Error& why = reply.error();
  if (lost_ && why.code == lost_->code && why.message == lost_->message) return;
  if (why.code == Code::timed_out && call.deadline.passed()) return;
  ready_.push_back(refusal_of(number, why));
}

// A service has room for few answers to a client: those on their way take none of it while others
// are to come.
Message CallsMade::answer(std::uint64_t number, Message reply) {
  MessageInfo info = info_of_call(CallKind::reply, number);
  info.type = reply.info().type;
  const auto kept = std::make_shared<const Message>(std::move(reply));
  auto parts = parts_of(*kept);
  if (!calls_.empty())
    if (auto copy = copy_of(parts, copied_))
      return message_over(std::move(copy), nullptr, std::move(parts), info);
  return message_over(kept, kept.get(), std::move(parts), info);
}

Result<void> CallsMade::check(const RemoteHead& head, ConstByteSpan) {
  const CallKind kind = kind_of(head.info.user);
  const bool is_cancel =
      kind == CallKind::cancel && head.bytes == 0 && head.has_payload && head.is_plain();
  if (kind == CallKind::request || is_cancel) return {};
  return fail(Code::peer_misbehaved, fmt::format("it says what no caller says (kind {}, {} bytes)",
                                                 head.info.user, head.bytes));
}

template <class Begin>
Result<void> CallsMade::call(const SendOptions& options, Begin begin) {
  const std::uint64_t number = options.correlation;
  if (number <= last_)
    return fail(Code::peer_misbehaved, fmt::format("it asks {} after {}", number, last_));
  CallOptions as;
  as.deadline = deadline_of(options.deadline_ns);
  as.type = options.type;
  as.room = options.deadline;
  if (!as.deadline.passed()) {
    if (!has_room()) return fail(Code::busy, "too many calls are in flight");  // I3
    Result<PendingReply> pending = begin(as);
    if (!pending) return tl::unexpected(std::move(pending).error());
    calls_.emplace(number, Call{*std::move(pending), as.deadline});
  }
  last_ = number;  // I2
  return {};
}

Result<void> CallsMade::send(Loan& loan, const SendOptions& options) {
  return call(options,
              [&](const CallOptions& as) { return client_.call_async(std::move(loan), as); });
}

Result<void> CallsMade::send(ConstByteSpan payload, const SendOptions& options) {
  if (kind_of(options.user) == CallKind::request)
    return call(options, [&](const CallOptions& as) { return client_.call_async(payload, as); });
  if (options.correlation > last_)
    return fail(
        Code::peer_misbehaved,
        fmt::format("it cancels what it has not asked: call {} of {}", options.correlation, last_));
  calls_.erase(options.correlation);
  return {};
}

Result<void> CallsMade::send(Draft draft, const SendOptions& options) {
  return call(options,
              [&](const CallOptions& as) { return client_.call_async(std::move(draft), as); });
}

// A service that is lost ends the session, in its turn.
Result<bool> CallsMade::refuse(const MessageInfo& info, const Error& why) {
  if (why.code == Code::peer_misbehaved || info.correlation <= last_) return tl::unexpected(why);
  look();
  if (!lost_ && !has_room()) return false;
  if (!lost_) ready_.push_back(refusal_of(info.correlation, why));
  last_ = info.correlation;
  return true;
}

RemoteEnd CallsSide::end(Link& link, const Result<void>& done) {
  RemoteEnd end = end_over(link, done);
  in_.end_transfers(link);
  out_.end_exports();
  return end;
}

Result<void> CallsSide::begin(Link& link, std::uint64_t received) {
  GANTRY_TRY(in_.begin(link, 0));
  return out_.begin(link, received);
}

// Answers are sent on and acknowledged before the next request goes out, so that the service has
// room for its answer.
Result<RemoteSide::Turn> CallsSide::turn(Link& link) {
  const LinkTurn turn(link);
  GANTRY_ASSIGN(const bool has_records,
                hear(link, "it says what nobody says in a session of calls"));
  if (is_over()) return Turn::over;
  GANTRY_ASSIGN(const bool has_landed, in_.take_landed(link));
  GANTRY_ASSIGN(const bool has_received, in_.step(link, true));
  if (is_over()) return Turn::over;
  GANTRY_ASSIGN(const bool has_sent, out_.step(link));
  return has_records || has_landed || has_received || has_sent || turn.has_moved() ? Turn::moved
                                                                                   : Turn::idle;
}

Result<bool> CallsSide::take_record(const Link& link, RemoteKind kind, WordReader& in) {
  const bool is_senders =
      kind == RemoteKind::message || kind == RemoteKind::more || kind == RemoteKind::ended;
  GANTRY_ASSIGN(const bool is_known,
                is_senders ? in_.take_record(link, kind, in) : out_.take_record(link, kind, in));
  const bool is_closed = in_.ended() && in_.ended()->code == Code::closed;
  return is_known && !is_closed;
}

// Transfers into memory of in_ have ended when the link is closed.
RemoteEnd CallsSide::end_over(Link& link, const Result<void>& done) {
  const bool link_lives = link.state().has_value();
  if (done && !is_over()) {
    const Error why = stopped_or("the other end was closed");
    return {RemoteEnd::Kind::stopped, end_session(link, RemoteKind::stopped, why).why};
  }
  if (!done && link_lives) return end_session(link, RemoteKind::stopped, done.error());
  link.close();
  if (out_.answer()) return {RemoteEnd::Kind::over, *out_.answer()};
  if (in_.is_done()) return {RemoteEnd::Kind::over, in_.why()};
  return end_of_link(done.error());
}

}  // namespace gantry
