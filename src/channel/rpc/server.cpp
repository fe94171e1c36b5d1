#include "channel/rpc/server.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cstring>

#include "base/event.hpp"
#include "base/fork_error.hpp"
#include "base/moved_from.hpp"
#include "channel/rpc/option_parts.hpp"
#include "channel/wire/step.hpp"
#include "channel/wire/waiter.hpp"

namespace gantry {
namespace {

constexpr std::size_t kMostQueued = 1024;  // by look(): then cancellations wait for next()

bool is_no_request(const MessageInfo& info) noexcept {
  return info.user != static_cast<std::uint64_t>(RpcKind::request);
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
                                                         std::shared_ptr<Engine> engine) {
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
  InboxOptions inbox;
  inbox.channel = impl->options_.channel;
  inbox.producers = options.clients;
  inbox.total = options.total;
  inbox.on_departure = [self = impl.get()](const Departure& one) {
    self->client_left(one.sender.id);
  };
  GANTRY_ASSIGN(impl->inbox_, Inbox::Impl::make(name, inbox, is_no_request));
  impl->options_.channel.metrics_descriptor = -1;
  GANTRY_ASSIGN(impl->queued_, make_event());
  impl->watched_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!impl->watched_) return fail_errno("epoll_create1");
  for (const int descriptor : {impl->queued_.get(), impl->inbox_->event_descriptor()}) {
    epoll_event interest{};
    interest.events = EPOLLIN;
    if (::epoll_ctl(impl->watched_.get(), EPOLL_CTL_ADD, descriptor, &interest) != 0)
      return fail_errno("epoll_ctl");
  }
  return impl;
}

Result<void> Server::Impl::check_process() const {
  return check_not_forked(fork_guard_, "server", name_);
}

void Server::Impl::shut_down() noexcept {
  if (!fork_guard_.is_this()) return;  // the clients and the lock are the parent's
  const std::lock_guard lock(receiving_);
  inbox_->shut_down();
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
  if (!fork_guard_.is_this()) return;
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

// Hangs up on a sender that does not speak as a client does.
void Server::Impl::take(Inbox::Delivery delivery) {
  const MessageInfo info = delivery.message.info();
  const std::uint64_t id = delivery.sender.id;
  Code why = Code::closed;
  const auto client = served_.find(id);
  if (client == served_.end()) {
    if (info.user == static_cast<std::uint64_t>(RpcKind::introduce))
      return introduce(delivery.sender);
  } else if (info.user == static_cast<std::uint64_t>(RpcKind::request)) {
    queue_.push_back(std::make_unique<Request::Impl>(client->second, weak_from_this(),
                                                     std::move(delivery.message)));
    GANTRY_STEP(request_queued);
    return;
  } else if (info.user == static_cast<std::uint64_t>(RpcKind::cancel)) {
    client->second->note_cancelled(info.correlation);
    GANTRY_STEP(cancellation_noted);
    return;
  }
  inbox_->dismiss(id, why);
  client_left(id);
}

// A client that cannot be served is told why before its control connection closes, or it would
// think that this process is gone.
void Server::Impl::introduce(const Sender& sender) {
  ReceivedFd control;
  std::shared_ptr<Producer::Impl> replies;
  const auto opened = open_replies(sender, control, replies);
  if (!opened) return inbox_->dismiss(sender.id, opened.error().code);
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
  if (!control) return fail(Code::peer_misbehaved, fmt::format("client {} (process {}) sent no control connection",
                                                   sender.id, sender.pid));
  GANTRY_STEP(control_taken);
  GANTRY_ASSIGN(replies, Producer::Impl::make(
                             name_, {end_part(options_.channel), payload_part(options_.replies)},
                             engine_, Producer::Impl::Reach::answers));
  GANTRY_TRY(replies->call_over(control, inbox_->identity_of(sender.id)));
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

}  // namespace gantry
