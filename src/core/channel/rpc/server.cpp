#include "core/channel/rpc/server.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/clock.hpp"
#include "core/base/event.hpp"
#include "core/base/moved_from.hpp"
#include "core/base/os/fork_error.hpp"
#include "core/base/wait.hpp"
#include "core/channel/wire/step.hpp"
#include "core/channel/wire/waiter.hpp"

namespace gantry {
namespace {

constexpr std::size_t kMostQueued = 1024;  // by look(): then cancellations wait for next()

bool is_no_payload(const MessageInfo& info) noexcept {
  const auto kind = static_cast<RpcKind>(info.user);
  return kind != RpcKind::request && kind != RpcKind::post;
}

}  // namespace

// ---- the clients ---------------------------------------------------------------------------

Result<void> ServedClient::check_process() const {
  if (fork_guard_.is_this()) return {};
  return belongs_to_parent("a request");
}

void ServedClient::begin(std::uint64_t correlation) {
  const std::lock_guard lock(calls_mutex_);
  calls_.try_emplace(correlation, false);
}
void ServedClient::end(std::uint64_t correlation) {
  const std::lock_guard lock(calls_mutex_);
  calls_.erase(correlation);
}
void ServedClient::note_cancelled(std::uint64_t correlation) {
  const std::lock_guard lock(calls_mutex_);
  if (const auto call = calls_.find(correlation); call != calls_.end()) call->second = true;
}
bool ServedClient::is_cancelled(std::uint64_t correlation) const {
  const std::lock_guard lock(calls_mutex_);
  const auto call = calls_.find(correlation);
  return call != calls_.end() && call->second;
}

// ---- the server ----------------------------------------------------------------------------

// By value, as in Server::open().
Result<std::shared_ptr<Server::Impl>> Server::Impl::make(std::string_view name,
                                                         const ServerOptions& options,
                                                         std::shared_ptr<Engine> engine,
                                                         ServerEvents events) {
  if (engine == nullptr)
    return fail(Code::invalid_argument, fmt::format("server '{}': no engine given", name));
  if (options.channel.when_slow != SlowConsumer::block)
    return fail(Code::invalid_argument,
                fmt::format("server '{}': when_slow is {}, by which requests are lost", name,
                            to_string(options.channel.when_slow)),
                "leave ServerOptions::channel.when_slow at block");
  auto impl = std::make_shared<Impl>();
  impl->name_ = name;
  impl->options_ = options;
  GANTRY_ASSIGN(impl->options_.channel.acceptor, Acceptor::of(options.channel));
  impl->engine_ = std::move(engine);
  impl->events_ = std::move(events);
  InboxOptions inbox;
  inbox.channel = impl->options_.channel;
  inbox.producers = options.clients;
  inbox.total = options.total;
  inbox.on_departure = [self = impl.get()](const Departure& one) {
    self->client_left(one.sender.id);
    if (self->events_.departure) self->events_.departure(one);
  };
  GANTRY_ASSIGN(impl->inbox_,
                Inbox::Impl::make(name, inbox, is_no_payload,
                                  impl->events_.request ? Purpose::work : Purpose::call));
  impl->options_.channel.metrics_descriptor = -1;
  if (!impl->events_.request) GANTRY_TRY(impl->watch_queued());
  return impl;
}

Result<void> Server::Impl::watch_queued() {
  GANTRY_ASSIGN(queued_, make_event());
  GANTRY_ASSIGN(watched_, make_epoll({queued_.get(), inbox_->event_descriptor()}));
  return {};
}

Result<void> Server::Impl::check_process() const {
  return check_not_forked(fork_guard_, "server", name_);
}

void Server::Impl::shut_down(Code why) noexcept {
  if (!fork_guard_.is_this()) return;  // the clients and the lock are the parent's
  const std::lock_guard lock(receiving_);
  inbox_->shut_down(why);
  for (auto& request : queue_) request->forget();  // their clients see that we left
  queue_.clear();
  for (const auto& [id, client] : served_) client->note_gone();
  served_.clear();
  lingering_.clear();
  GANTRY_STEP(server_shut_down);
}

Result<std::unique_ptr<Request::Impl>> Server::Impl::next(Deadline deadline) {
  GANTRY_TRY(check_process());
  const std::lock_guard lock(receiving_);
  for (LateLooks looks;;) {
    if (auto request = next_queued()) return request;
    if (looks.are_spent(deadline)) {  // there is always something, and never a request
      ring(queued_.get());
      return fail(Code::timed_out, fmt::format("server '{}': no request in time", name_));
    }
    GANTRY_ASSIGN(auto delivery, inbox_->receive(deadline));
    take(std::move(delivery));
  }
}

// Drops those that nobody waits for, unserved.
std::unique_ptr<Request::Impl> Server::Impl::next_queued() {
  while (!queue_.empty()) {
    auto request = std::move(queue_.front());
    queue_.pop_front();
    const bool expired = request->has_expired();
    if (!expired && !request->is_unwanted()) {
      requests_.fetch_add(1, std::memory_order_relaxed);
      GANTRY_STEP(request_handed_out);
      return request;
    }
    request->forget();
    (expired ? expired_ : cancelled_).fetch_add(1, std::memory_order_relaxed);
    GANTRY_STEP(request_dropped);
  }
  drain(queued_.get());
  return nullptr;
}

void Server::Impl::look() {
  if (!fork_guard_.is_this() || events_.request) return;
  const std::unique_lock lock(receiving_, std::try_to_lock);
  if (!lock) return;
  // Bounds the listening to clients that send without end.
  LateLooks looks;
  bool is_more = true;
  while (is_more && queue_.size() < kMostQueued && !looks.are_spent(Deadline::now())) {
    auto delivery = inbox_->receive(Deadline::now());
    is_more = delivery.has_value();
    if (delivery) take(std::move(*delivery));
  }
  if (is_more || !queue_.empty()) ring(queued_.get());
}

Result<bool> Server::Impl::take_one() {
  GANTRY_TRY(check_process());
  const std::lock_guard lock(receiving_);
  auto delivery = inbox_->receive(Deadline::now());
  if (delivery) {
    take(std::move(*delivery));
    return true;
  }
  if (delivery.error().code == Code::timed_out || delivery.error().code == Code::interrupted)
    return false;
  return tl::unexpected(std::move(delivery).error());
}

// Hangs up on a sender that does not speak as a client does.
void Server::Impl::take(Inbox::Delivery delivery) {
  const MessageInfo info = delivery.message.info();
  const auto kind = static_cast<RpcKind>(info.user);
  if (events_.post && (kind == RpcKind::post || kind == RpcKind::note))
    return events_.post(std::move(delivery));
  const auto client = served_.find(delivery.sender.id);
  if (client == served_.end()) {
    if (kind == RpcKind::introduce) return introduce(delivery.sender);
  } else if (kind == RpcKind::request) {
    return take_request(client->second, std::move(delivery.message));
  } else if (kind == RpcKind::cancel) {
    client->second->note_cancelled(info.correlation);
    GANTRY_STEP(cancellation_noted);
    return;
  }
  hang_up_on(delivery.sender, {Code::closed, "it does not speak as a client does", {}});
}

void Server::Impl::take_request(const std::shared_ptr<ServedClient>& client, Message message) {
  auto request = std::make_unique<Request::Impl>(client, weak_from_this(), std::move(message));
  if (events_.request) return events_.request(Request(std::move(request)));
  queue_.push_back(std::move(request));
  GANTRY_STEP(request_queued);
}

void Server::Impl::hang_up_on(const Sender& sender, const Error& why) {
  inbox_->dismiss(sender.id, why.code);
  client_left(sender.id);
  if (events_.departure) events_.departure({sender, why});
}

// A client that cannot be served is told why before its control connection closes, or it would
// think that this process is gone.
void Server::Impl::introduce(const Sender& sender) {
  ReceivedFd control;
  std::shared_ptr<Producer::Impl> replies;
  const auto opened = open_replies(sender, control, replies);
  if (!opened) return hang_up_on(sender, opened.error());
  forget_released();
  served_[sender.id] =
      std::make_shared<ServedClient>(sender, std::move(replies), options_.replies.as);
  clients_.store(served_.size(), std::memory_order_relaxed);
  GANTRY_STEP(client_known);
}

// Replies go to the process that connected, and nowhere else.
Result<void> Server::Impl::open_replies(const Sender& sender, ReceivedFd& control,
                                        std::shared_ptr<Producer::Impl>& replies) {
  GANTRY_ASSIGN(control, inbox_->take_control_end(sender.id));
  if (!control)
    return fail(
        Code::peer_misbehaved,
        fmt::format("client {} (process {}) sent no control connection", sender.id, sender.pid));
  GANTRY_STEP(control_taken);
  GANTRY_ASSIGN(replies, Producer::Impl::make(
                             name_, {end_part(options_.channel), payload_part(options_.replies)},
                             engine_, Producer::Impl::Reach::answers));
  GANTRY_TRY(replies->connector().call_over(control, inbox_->identity_of(sender.id)));
  GANTRY_STEP(control_called);
  return {};
}

void Server::Impl::client_left(std::uint64_t id) {
  const auto client = served_.find(id);
  if (client == served_.end()) return;
  client->second->note_gone();
  forget_released();
  if (client->second->holds_forwards()) lingering_.push_back(std::move(client->second));
  if (lingering_.size() > options_.clients) lingering_.pop_front();
  served_.erase(client);
  clients_.store(served_.size(), std::memory_order_relaxed);
  GANTRY_STEP(client_forgotten);
}

void Server::Impl::forget_released() {
  std::erase_if(lingering_, [](const auto& client) { return !client->holds_forwards(); });
}

ServerReport Server::Impl::report() const {
  return {clients_.load(std::memory_order_relaxed), requests_.load(std::memory_order_relaxed),
          expired_.load(std::memory_order_relaxed), cancelled_.load(std::memory_order_relaxed)};
}

// ---- as its users see it -------------------------------------------------------------------

Server::Server(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
Server::~Server() {
  if (impl_) impl_->shut_down();
}

Result<Server> Server::open(std::string_view name, const ServerOptions& options,
                            std::shared_ptr<Engine> engine) {
  return guarded([&]() -> Result<Server> {
    GANTRY_ASSIGN(auto impl, Impl::make(name, options, std::move(engine)));
    return Server(std::move(impl));
  });
}

Result<Request> Server::next(Deadline deadline) {
  return guarded_on(impl_, "Server", [&]() -> Result<Request> {
    GANTRY_ASSIGN(auto request, impl_->next(deadline));
    return Request(std::move(request));
  });
}
Result<int> Server::event_descriptor() {
  if (!impl_) return moved_from("Server");
  GANTRY_TRY(impl_->check_process());
  return impl_->event_descriptor();
}
ServerReport Server::report() const {
  return impl_ ? impl_->report() : ServerReport();
}

// ---- a request in the hands of its server ----------------------------------------------------

// The client is told; a client that has no room even for that would wait for ever.
Request::Impl::~Impl() {
  if (!client_->check_process()) return;  // a fork's copy
  if (!answered_ && !is_unwanted() && !has_expired()) {
    const auto told = guarded([&] { return refuse(why_dropped()); });
    if (!told && told.error().code != Code::peer_gone)
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

template <class Payload>
Result<void> Request::Impl::reply(Payload payload, const ReplyOptions& options) {
  return answer(options, RpcKind::reply, [&](Producer::Impl& replies, const SendOptions& as) {
    return replies.send(std::move(payload), as);
  });
}
Result<void> Request::reply(ConstByteSpan payload, const ReplyOptions& options) {
  return guarded_on(impl_, "Request", [&] { return impl_->reply(payload, options); });
}
Result<void> Request::reply(Draft draft, const ReplyOptions& options) {
  return guarded_on(impl_, "Request", [&] { return impl_->reply(std::move(draft), options); });
}
Result<void> Request::reply(Loan loan, const ReplyOptions& options) {
  return guarded_on(impl_, "Request", [&] { return impl_->reply(std::move(loan), options); });
}
Result<Loan> Request::loan(Bytes size, Deadline deadline) {
  return guarded_on(impl_, "Request", [&] { return impl_->loan(size, deadline); });
}
Result<void> Request::refuse(const Error& error) {
  return guarded_on(impl_, "Request", [&] { return impl_->refuse(error); });
}

}  // namespace gantry
