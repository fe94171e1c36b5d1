#pragma once  // channel/rpc/server.hpp: the answering end behind Server and Request.

#include <deque>
#include <gantry/call.hpp>
#include <map>

#include "core/channel/inbox/inbox.hpp"
#include "core/channel/producer/producer.hpp"
#include "core/channel/rpc/rpc_kind.hpp"

namespace gantry {

/// What the dispatcher of a queue of work hears within take_one(), in the order in which each
/// client said it. Must not use the server.
struct ServerEvents {
  std::function<void(Request)> request;
  std::function<void(Inbox::Delivery)> post;  // or note
  std::function<void(const Departure&)> departure;
};

/// A client as its server knows it: the connection back to it, and the calls it waits for. Its
/// requests keep it alive. Any thread.
class ServedClient {
 public:
  /// `as`: what its replies become.
  ServedClient(const Sender& sender, std::shared_ptr<Producer::Impl> replies, std::optional<As> as)
      : sender_(sender), as_(std::move(as)), replies_(std::move(replies)) {}
  ~ServedClient() { replies_->shut_down(); }
  ServedClient(const ServedClient&) = delete;
  ServedClient& operator=(const ServedClient&) = delete;

  [[nodiscard]] Result<void> check_process() const;  ///< Fails in a fork's copy.
  [[nodiscard]] const Sender& sender() const noexcept { return sender_; }
  [[nodiscard]] const As* as() const noexcept { return as_ ? &*as_ : nullptr; }
  /// Calls `send` with the connection back; one thread at a time.
  template <class Send>
  [[nodiscard]] auto with_replies(Send send) -> decltype(send(std::declval<Producer::Impl&>())) {
    const std::lock_guard lock(sending_);
    return send(*replies_);
  }

  /// True if the client may still read a message that a reply passed on.
  [[nodiscard]] bool holds_forwards() const { return replies_->holds_forwards(); }

  void note_gone() noexcept { gone_.store(true, std::memory_order_relaxed); }  // a hint, no data
  [[nodiscard]] bool is_gone() const noexcept { return gone_.load(std::memory_order_relaxed); }

  void note_cancelled(std::uint64_t correlation);
  [[nodiscard]] bool is_cancelled(std::uint64_t correlation) const;
  void begin(std::uint64_t correlation);
  void end(std::uint64_t correlation);

 private:
  ForkGuard fork_guard_;
  const Sender sender_;
  const std::optional<As> as_;
  std::mutex sending_;  // guards the use of replies_
  std::shared_ptr<Producer::Impl> replies_;
  std::atomic<bool> gone_{false};
  mutable std::mutex calls_mutex_;
  // calls in the server's hands, and whether they are cancelled
  std::map<std::uint64_t, bool> calls_;
};

class GANTRY_LOCAL Request::Impl {
 public:
  Impl(std::shared_ptr<ServedClient> line, std::weak_ptr<Server::Impl> server, Message message)
      : client_(std::move(line)), server_(std::move(server)), message_(std::move(message)) {
    client_->begin(correlation());
  }
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] const Message& message() const noexcept { return message_; }
  [[nodiscard]] const Sender& sender() const noexcept { return client_->sender(); }
  [[nodiscard]] std::uint64_t correlation() const noexcept { return message_.info().correlation; }
  [[nodiscard]] std::chrono::nanoseconds remaining() const noexcept;
  [[nodiscard]] bool has_expired() const noexcept { return remaining().count() == 0; }
  /// True if nobody waits for the answer, as far as the server has heard.
  [[nodiscard]] bool is_unwanted() const {
    return !client_->check_process() || client_->is_gone() || client_->is_cancelled(correlation());
  }
  [[nodiscard]] bool is_cancelled();

  /// `send` sends the answer with the options it is given.
  template <class Send>
  [[nodiscard]] Result<void> answer(const ReplyOptions& options, RpcKind kind, Send send);
  template <class Payload>  // bytes, a Draft or a Loan
  [[nodiscard]] Result<void> reply(Payload payload, const ReplyOptions& options);
  [[nodiscard]] Result<Loan> loan(Bytes size, Deadline deadline);
  [[nodiscard]] Result<void> refuse(const Error& error);
  void forget() noexcept { answered_ = true; }  ///< The request is dropped, and nobody waits.

 private:
  [[nodiscard]] Error why_dropped() const;

  std::shared_ptr<ServedClient> client_;
  std::weak_ptr<Server::Impl> server_;
  Message message_;
  bool answered_ = false;
  bool found_no_place_ = false;  // its reply did not, in time
};

/// next() uses it on its thread, look() on any; they take turns by `receiving_`.
class GANTRY_LOCAL Server::Impl : public std::enable_shared_from_this<Server::Impl> {
 public:
  static Result<std::shared_ptr<Impl>> make(std::string_view name, const ServerOptions& options,
                                            std::shared_ptr<Engine> engine,
                                            ServerEvents events = {});

  [[nodiscard]] Result<void> check_process() const;  ///< Fails in a fork's copy.
  [[nodiscard]] Result<std::unique_ptr<Request::Impl>> next(Deadline deadline);
  /// Takes in what has come, unless another thread does so.
  void look();
  /// Instead of next() and look(), with events: takes in one message. False: there was none.
  [[nodiscard]] Result<bool> take_one();
  /// With events: Inbox::Impl::hear().
  [[nodiscard]] bool hear(Hears hears) {
    const std::lock_guard lock(receiving_);
    return inbox_->hear(hears);
  }
  [[nodiscard]] int event_descriptor() const noexcept {
    return watched_ ? watched_.get() : inbox_->event_descriptor();
  }
  [[nodiscard]] ServerReport report() const;
  [[nodiscard]] const Inbox::Impl& inbox() const noexcept { return *inbox_; }
  void shut_down(Code why = Code::peer_gone) noexcept;  ///< See Inbox::Impl::shut_down().

 private:
  [[nodiscard]] std::unique_ptr<Request::Impl> next_queued();
  [[nodiscard]] Result<void> watch_queued();
  void take(Inbox::Delivery delivery);
  void take_request(const std::shared_ptr<ServedClient>& client, Message message);
  void hang_up_on(const Sender& sender, const Error& why);
  void introduce(const Sender& sender);
  /// What it has opened when it fails is left to the caller to close.
  [[nodiscard]] Result<void> open_replies(const Sender& sender, ReceivedFd& control,
                                          std::shared_ptr<Producer::Impl>& replies);
  void client_left(std::uint64_t id);
  void forget_released();

  ForkGuard fork_guard_;
  std::string name_;
  ServerOptions options_;
  std::shared_ptr<Engine> engine_;
  ServerEvents events_;
  std::mutex receiving_;  // guards all below except the counts
  std::shared_ptr<Inbox::Impl> inbox_;
  std::map<std::uint64_t, std::shared_ptr<ServedClient>> served_;  // by the sender's id
  // Clients that left and may still read what replies passed on; at most options_.clients. While
  // their connection is here, the memory goes back to its sender as they release it.
  std::deque<std::shared_ptr<ServedClient>> lingering_;
  std::deque<std::unique_ptr<Request::Impl>> queue_;
  Fd queued_;                            // rung when look() queued something
  Fd watched_;                           // an epoll of that and of the inbox; none with events
  std::atomic<std::size_t> clients_{0};  // counts, for display
  std::atomic<std::uint64_t> requests_{0}, expired_{0}, cancelled_{0};
};

}  // namespace gantry
