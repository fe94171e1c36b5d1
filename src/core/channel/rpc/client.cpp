#include "core/channel/rpc/client.hpp"

#include <sys/timerfd.h>

#include <algorithm>
#include <cstring>

#include "core/base/event.hpp"
#include "core/base/moved_from.hpp"
#include "core/base/os/fork_error.hpp"
#include "core/base/wait.hpp"

namespace gantry {
namespace {

constexpr std::size_t kMostTaken = 256;  // replies at a time: more than any ring holds

Error read_refusal(ConstByteSpan bytes) {
  Refusal refusal;
  if (bytes.size() < sizeof refusal)
    return {Code::peer_misbehaved,
            fmt::format("the server refused in {} bytes; a reason has at least {}", bytes.size(),
                        sizeof refusal),
            ""};
  std::memcpy(&refusal, bytes.data(), sizeof refusal);
  const ConstByteSpan text = bytes.subspan(sizeof refusal);
  Error error;
  if (refusal.code <= static_cast<std::uint32_t>(Code::system))
    error.code = static_cast<Code>(refusal.code);
  error.message.resize(std::min(text.size(), kMaxRefusalText));
  if (!error.message.empty()) std::memcpy(error.message.data(), text.data(), error.message.size());
  return error;
}

}  // namespace

// By value, as in Client::connect(); kept for reconnect().
Result<std::shared_ptr<ClientLink>> ClientLink::make(Purpose purpose, std::string_view name,
                                                     const ClientOptions& options,
                                                     std::shared_ptr<Engine> engine,
                                                     Deadline deadline) {
  auto link = std::make_shared<ClientLink>();
  link->name_ = link->label_ = name;
  link->purpose_ = purpose;
  link->options_ = options;
  GANTRY_ASSIGN(link->options_.acceptor, Acceptor::of(options));  // one for both directions
  link->engine_ = std::move(engine);
  GANTRY_TRY(link->set_up(deadline));
  if (purpose == Purpose::call) GANTRY_TRY(link->introduce(deadline));
  return link;
}

Result<void> ClientLink::set_up(Deadline deadline) {
  GANTRY_ASSIGN(server_moves_, make_event());
  ProducerOptions requests{end_part(options_), payload_part(options_)};
  requests.consumers_event = server_moves_.get();
  GANTRY_ASSIGN(requests_, Producer::Impl::make(name_, requests, engine_,
                                                Producer::Impl::Reach::calls, purpose_));
  return requests_->connector().wait_for_inbox(deadline);
}

Result<void> ClientLink::introduce(Deadline deadline) {
  if (is_introduced_) return {};
  if (lost_) return tl::unexpected(*lost_);
  if (replies_ == nullptr) GANTRY_TRY(listen_for_replies());
  SendOptions introduction;
  introduction.deadline = deadline;
  introduction.user = static_cast<std::uint64_t>(RpcKind::introduce);
  GANTRY_TRY(requests_->send_uncounted(introduction));
  GANTRY_STEP(introduced);
  is_introduced_ = true;
  return {};
}

// Replies come over a connection that only the server is given, over the socket on which it let us
// in. So it needs no name, nor a folder that both can write to.
Result<void> ClientLink::listen_for_replies() {
  GANTRY_ASSIGN(alarms_, make_epoll({server_moves_.get(), options_.interrupt_descriptor}));
  InboxOptions options;
  options.channel = {end_part(options_)};
  options.channel.receive = options_.receive;
  options.channel.metrics_descriptor = -1;
  options.channel.interrupt_descriptor = alarms_.get();
  options.producers = 1;
  options.on_departure = [this](const Departure& one) {
    lose_server(one.why);
    ring(server_moves_.get());  // ends the receive within which this is called
  };
  GANTRY_ASSIGN(ControlPair control, make_control_pair());
  GANTRY_ASSIGN(auto replies,
                Inbox::Impl::make_for({std::move(control.ours), requests_->connector().called(),
                                       requests_->connector().take_called_life()},
                                      name_, options));
  GANTRY_STEP(way_back_opened);
  GANTRY_TRY(requests_->connector().send_control(control.theirs.get()));
  GANTRY_STEP(control_handed_over);
  replies_ = std::move(replies);
  return {};
}

Result<void> ClientLink::check_process() const {
  return check_not_forked(fork_guard_, owner_of(purpose_), label_);
}

void ClientLink::hang_up() noexcept {
  if (!fork_guard_.is_this()) return;  // the connection is the parent's
  lose({Code::peer_gone, "was left by its client", ""});
  requests_->shut_down();
  if (replies_ != nullptr) replies_->shut_down();
  far_side_.reset();
  GANTRY_STEP(client_hung_up);
}

void ClientLink::lose(const Error& why) {
  if (lost_) return;
  Error told{
      why.code,
      fmt::format("{} (process {}) {}", called(), requests_->connector().called().pid, why.message),
      why.hint};
  lost_ = far_side_ ? far_side_->reason(std::move(told)) : std::move(told);
  if (settled_) ring(settled_.get());
}

// ---- a server of another host --------------------------------------------------------------

void ClientLink::attach(std::shared_ptr<detail::FarSide> far_side) {
  label_ = far_side->name();
  far_side_ = std::move(far_side);
}

Result<std::shared_ptr<ClientLink>> ClientLink::again(Deadline deadline) const {
  if (far_side_) GANTRY_TRY(far_side_->reconnect(deadline));
  auto next = make(purpose_, name_, options_, engine_, deadline);
  if (next && far_side_) (*next)->attach(far_side_);
  return next;
}

// ---- a server that goes --------------------------------------------------------------------

// A server that lives is not called gone: whoever connects anew for that would do so for ever. Its
// own last word about it may lie in the other connection.
void ClientLink::lose_server(const Error& why) {
  if (const auto told = requests_->connector().trouble()) return lose(*told);
  if (!is_own_trouble(why.code)) return lose({Code::peer_gone, "is gone", ""});
  std::string_view message = why.message;
  const std::string prefix = fmt::format("channel '{}': ", name_);
  if (message.starts_with(prefix)) message.remove_prefix(prefix.size());
  lose({why.code, fmt::format("cannot be heard any more: {}", message), why.hint});
}

Error ClientLink::not_sent(Error error) {
  if (!requests_->connector().is_alone()) return error;
  look_for_server();
  return lost_ && (error.code == Code::peer_gone || error.code == lost_->code) ? *lost_ : error;
}

Result<Loan> ClientLink::loan(Bytes size, Deadline deadline) {
  GANTRY_TRY(check_process());
  if (lost_) return tl::unexpected(*lost_);
  auto loan = requests_->loan(size, deadline);
  if (!loan) return tl::unexpected(not_sent(std::move(loan).error()));
  return loan;
}

// ---- waiting -------------------------------------------------------------------------------

bool ClientLink::is_over(std::uint64_t correlation) const noexcept {
  const auto call = calls_.find(correlation);
  return call == calls_.end() || call->second.outcome || lost_ || call->second.deadline.passed();
}

Result<Message> ClientLink::wait(std::uint64_t correlation, Deadline deadline) {
  GANTRY_TRY(check_process());
  for (LateLooks looks;;) {
    const auto call = calls_.find(correlation);
    if (call == calls_.end())
      return fail(Code::invalid_argument,
                  fmt::format("{}: call {} was cancelled, or its outcome was taken", called(),
                              correlation));
    const bool more = watched_ && take_all();  // I3
    if (call->second.outcome || lost_) {
      Result<Message> outcome =
          call->second.outcome ? std::move(*call->second.outcome) : tl::unexpected(*lost_);
      calls_.erase(call);
      GANTRY_STEP(call_ended);
      return outcome;
    }
    const Deadline own = call->second.deadline;
    const Deadline until = own.left() < deadline.left() ? own : deadline;
    const bool is_late = looks.are_spent(until);
    const auto waited = is_late ? Result<void>(fail(Code::timed_out, "")) : wait_once(until);
    if (waited || call->second.outcome || lost_) continue;
    if (waited.error().code != Code::timed_out) return tl::unexpected(waited.error());
    if (own.passed())
      calls_.erase(call);
    else
      call->second.sleeps = true;
    if (watched_) set_timer();
    if (more && is_late) ring(settled_.get());  // there was more than could be taken: I3
    return fail(Code::timed_out, called() + ": no reply in time");
  }
}

// Waits until a reply has come, for any call, or the server has gone. Errors: `timed_out`,
// `interrupted`.
Result<void> ClientLink::wait_once(Deadline deadline) {
  auto delivery = replies_->receive(deadline);
  if (delivery) {
    settle(std::move(delivery->message));
    return {};
  }
  if (delivery.error().code != Code::interrupted) return tl::unexpected(delivery.error());
  if (would_pass(server_moves_.get(), POLLIN)) {
    look_for_server();
    return {};
  }
  return fail(Code::interrupted, called() + ": interrupted");
}

// Replies that the server sent before it went count.
void ClientLink::look_for_server() {
  drain(server_moves_.get());
  if (!requests_->connector().is_alone()) return;
  if (replies_ != nullptr) static_cast<void>(take_replies());
  lose_server({Code::peer_gone, {}, {}});
}

bool ClientLink::take_replies() {
  for (std::size_t taken = 0; taken < kMostTaken; ++taken) {
    auto delivery = replies_->receive(Deadline::now());
    if (!delivery) return false;
    settle(std::move(delivery->message));
  }
  return true;
}

bool ClientLink::take_all() {
  if (would_pass(server_moves_.get(), POLLIN)) look_for_server();
  return take_replies();
}

// Replies that nobody waits for any more are given back at once.
void ClientLink::settle(Message message) {
  const auto call = calls_.find(message.info().correlation);
  if (call == calls_.end() || call->second.outcome) return;
  if (message.info().user == static_cast<std::uint64_t>(RpcKind::refusal))
    call->second.outcome = tl::unexpected(read_refusal(message.bytes()));
  else
    call->second.outcome = std::move(message);
  GANTRY_STEP(reply_settled);
  if (settled_) ring(settled_.get());
}

void ClientLink::cancel(std::uint64_t correlation) noexcept {
  const auto call = calls_.find(correlation);
  if (call == calls_.end()) return;
  const bool is_wanted = !call->second.outcome && !lost_ && !call->second.deadline.passed();
  calls_.erase(call);
  if (!is_wanted || !fork_guard_.is_this())
    return;  // a fork's copy: the connection is the parent's
  SendOptions options;
  options.deadline = Deadline::now();
  options.user = static_cast<std::uint64_t>(RpcKind::cancel);
  options.correlation = correlation;
  // if it is not heard, that costs some work
  static_cast<void>(requests_->send_uncounted(options));
  GANTRY_STEP(call_cancelled);
}

// ---- sleeping elsewhere --------------------------------------------------------------------

Result<int> ClientLink::event_descriptor() {
  GANTRY_TRY(check_process());
  if (watched_) return watched_.get();
  GANTRY_ASSIGN(settled_, make_event());
  timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_) return fail_errno("timerfd_create");
  GANTRY_ASSIGN(watched_, make_epoll({replies_->event_descriptor(), server_moves_.get(),
                                      settled_.get(), timer_.get()}));
  ring(settled_.get());  // what is there already counts: the loop begins with a look
  return watched_.get();
}

Result<void> ClientLink::check() {
  GANTRY_TRY(check_process());
  const bool more = take_all();
  note_woken();
  if (more && settled_) ring(settled_.get());  // I3
  if (lost_) return tl::unexpected(*lost_);
  return {};
}

void ClientLink::note_woken() noexcept {
  if (!watched_ || !fork_guard_.is_this()) return;
  if (!owes_news()) drain(settled_.get());
  set_timer();  // anew: it may have expired for a call that has been asked for
}

// Of waiters that are woken together the first may ask before a later one takes its reply.
bool ClientLink::owes_news() const noexcept {
  return std::any_of(calls_.begin(), calls_.end(), [this](const auto& entry) {
    return entry.second.sleeps && (entry.second.outcome || lost_);
  });
}

void ClientLink::set_timer() noexcept {
  Deadline first = Deadline::never();
  for (const auto& [correlation, call] : calls_)
    if (!call.outcome && call.deadline.left() < first.left()) first = call.deadline;
  itimerspec at{};
  if (!first.is_never()) {
    const auto left = std::max(first.left(), std::chrono::nanoseconds(1));
    at.it_value.tv_sec = left.count() / 1'000'000'000;
    at.it_value.tv_nsec = left.count() % 1'000'000'000;
  }
  ::timerfd_settime(timer_.get(), 0, &at, nullptr);
}

// ---- a call in flight ----------------------------------------------------------------------

PendingReply::PendingReply() noexcept = default;
PendingReply::PendingReply(PendingReply&&) noexcept = default;
PendingReply& PendingReply::operator=(PendingReply&& other) noexcept {
  std::swap(link_, other.link_);
  std::swap(correlation_, other.correlation_);
  return *this;
}
PendingReply::~PendingReply() {
  cancel();
}

Result<Message> PendingReply::wait(Deadline deadline) {
  return guarded_on(link_, "PendingReply", [&] { return link_->wait(correlation_, deadline); });
}
bool PendingReply::is_over() const noexcept {
  return !link_ || link_->is_over(correlation_);
}
void PendingReply::cancel() noexcept {
  if (link_) link_->cancel(correlation_);
}
Result<int> PendingReply::event_descriptor() {
  return guarded_on(link_, "PendingReply", [&] { return link_->event_descriptor(); });
}
void PendingReply::note_woken() noexcept {
  if (link_) link_->note_woken();
}

// ---- the client ----------------------------------------------------------------------------

Client::Client(std::shared_ptr<ClientLink> link) noexcept : link_(std::move(link)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&& other) noexcept {
  std::swap(link_, other.link_);
  return *this;
}
Client::~Client() {
  if (link_) link_->hang_up();
}

Result<Client> Client::connect(std::string_view name, const ClientOptions& options,
                               std::shared_ptr<Engine> engine, Deadline deadline) {
  return guarded([&]() -> Result<Client> {
    GANTRY_ASSIGN(auto link,
                  ClientLink::make(Purpose::call, name, options, std::move(engine), deadline));
    return Client(std::move(link));
  });
}

Result<void> Client::reconnect(Deadline deadline) {
  return guarded_on(link_, "Client", [&]() -> Result<void> {
    GANTRY_TRY(link_->check_process());
    GANTRY_ASSIGN(auto next, link_->again(deadline));
    link_->hang_up();
    link_ = std::move(next);
    return {};
  });
}

void Client::attach(std::shared_ptr<detail::FarSide> far_side) {
  link_->attach(std::move(far_side));
}

Result<void> Client::check() {
  return guarded_on(link_, "Client", [&] { return link_->check(); });
}

template <class Payload>
Result<PendingReply> Client::ask(Payload payload, const CallOptions& options) {
  return guarded_on(link_, "Client", [&]() -> Result<PendingReply> {
    PendingReply pending;
    GANTRY_ASSIGN(pending.correlation_, link_->begin(options, [&](const SendOptions& sending) {
      return link_->requests().send(std::move(payload), sending);
    }));
    pending.link_ = link_;
    return pending;
  });
}
Result<PendingReply> Client::call_async(ConstByteSpan payload, const CallOptions& options) {
  return ask(payload, options);
}
Result<PendingReply> Client::call_async(Draft draft, const CallOptions& options) {
  return ask(std::move(draft), options);
}
Result<PendingReply> Client::call_async(Loan loan, const CallOptions& options) {
  return ask(std::move(loan), options);
}

Result<Loan> Client::loan(Bytes size, Deadline deadline) {
  return guarded_on(link_, "Client", [&] { return link_->loan(size, deadline); });
}

Result<Message> Client::call(ConstByteSpan payload, const CallOptions& options) {
  return call_async(payload, options).and_then([](PendingReply one) { return one.wait(); });
}
Result<Message> Client::call(Draft draft, const CallOptions& options) {
  return call_async(std::move(draft), options).and_then([](PendingReply one) {
    return one.wait();
  });
}

Result<int> Client::event_descriptor() {
  return guarded_on(link_, "Client", [&] { return link_->event_descriptor(); });
}

}  // namespace gantry
