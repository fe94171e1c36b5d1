#pragma once  // gantry/channel/request.hpp: calls with replies: correlation, deadlines,
              // cancellation.

#include <gantry/channel/inbox.hpp>

namespace gantry {

// ---- asking --------------------------------------------------------------------------------

/// How long a call may take, and what it says of itself.
struct CallOptions {
  /// When it passes, the call fails with `timed_out` and the server drops a request that has not
  /// begun.
  Deadline deadline = Deadline::never();
  std::uint32_t type =
      0;  ///< MessageInfo::type of the request. MessageInfo::user is not free here.
  /// How long to wait for room at the server's end, no longer than `deadline`.
  Deadline room = Deadline::never();
};

/// A call in flight. Move-only; dropping it before its end cancels it. Used by its client's thread.
class GANTRY_API PendingReply {
 public:
  PendingReply() noexcept;
  PendingReply(PendingReply&&) noexcept;
  PendingReply& operator=(PendingReply&&) noexcept;
  ~PendingReply();

  /// Waits for the reply and returns it, once. Errors: what the server refused the call with;
  /// `peer_gone` when the server died or left; `system` or `out_of_memory` when it lives and one
  /// side had no descriptors or no memory left; `timed_out`: by the call's deadline the call is
  /// over, by `deadline` it may be waited for again (is_over() tells which); `interrupted`.
  [[nodiscard]] Result<Message> wait(Deadline deadline = Deadline::never());
  /// True if wait() has nothing more to wait for, or has returned the answer.
  [[nodiscard]] bool is_over() const noexcept;
  /// Ends the call. The server is told, if its queue has room.
  void cancel() noexcept;
  /// The call's number, by which the server can name it in its log.
  [[nodiscard]] std::uint64_t correlation() const noexcept { return correlation_; }
  /// For awaitables; see Client::event_descriptor().
  [[nodiscard]] Result<int> event_descriptor();
  void note_woken() noexcept;  ///< It became readable, and every waiter is being asked.

 private:
  friend class Client;
  std::shared_ptr<class ClientLink> link_;
  std::uint64_t correlation_ = 0;
};

/// PayloadOptions say how requests are sent.
struct ClientOptions : EndOptions, PayloadOptions {
  ReceiveLimits receive{};  ///< What the server's replies may cost the client.
};

/// Calls one server. Used by one thread at a time; several calls may be in flight.
class GANTRY_API Client {
 public:
  static constexpr std::size_t kMaxCalls = 64;  ///< Calls in flight.

  /// Connects to the server of that name and waits for it until `deadline`. Errors: as
  /// Producer::connect().
  [[nodiscard]] static Result<Client> connect(std::string_view name, const ClientOptions& options,
                                              std::shared_ptr<Engine> engine,
                                              Deadline deadline = Deadline::never());
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();  ///< Ends calls in flight with `peer_gone`; their server sees them cancelled.

  /// Sends a request and waits for its reply. Errors: those of call_async() and
  /// PendingReply::wait().
  [[nodiscard]] Result<Message> call(ConstByteSpan payload, const CallOptions& options = {});
  [[nodiscard]] Result<Message> call(Draft draft, const CallOptions& options = {});
  /// Returns when the request is with its server; a copied payload is the caller's again. Errors:
  /// `busy` when kMaxCalls are in flight; those of Producer::send().
  [[nodiscard]] Result<PendingReply> call_async(ConstByteSpan payload,
                                                const CallOptions& options = {});
  [[nodiscard]] Result<PendingReply> call_async(Draft draft, const CallOptions& options = {});
  /// Lends memory for a request; the second sends it.
  [[nodiscard]] Result<Loan> loan(Bytes size, Deadline deadline = Deadline::never());
  /// Sends a request that lies in a loan of this client.
  [[nodiscard]] Result<PendingReply> call_async(Loan loan, const CallOptions& options = {});

  /// Readable when a PendingReply may be over. It is certain to become so after a wait() with a
  /// passed deadline said `timed_out`. Then ask all of them.
  [[nodiscard]] Result<int> event_descriptor();

  /// Looks for the server, waits for nothing. Errors: why no call can be made any more; those in
  /// flight still have what was answered before.
  [[nodiscard]] Result<void> check();

  /// After `peer_gone`: connects to the next server of the name. Calls in flight are over. After
  /// `system` or `out_of_memory` the same server is there, and the want must be mended first.
  [[nodiscard]] Result<void> reconnect(Deadline deadline = Deadline::never());

 private:
  friend class FarSides;
  explicit Client(std::shared_ptr<class ClientLink> link) noexcept;
  void attach(std::shared_ptr<detail::FarSide> far_side);
  std::shared_ptr<class ClientLink> link_;
};

// ---- answering -----------------------------------------------------------------------------

/// What a reply says of itself beside its payload.
struct ReplyOptions {
  /// How long to wait for room at the client's end, which it has unless it keeps many replies. The
  /// default does not wait.
  Deadline deadline = Deadline::now();
  std::uint32_t type = 0;  ///< The server's own tag: MessageInfo::type of the reply.
};

/// A request in its server's hands. Move-only, used by one thread at a time, any thread; it may
/// outlive its server. If it is dropped unanswered its client gets `aborted`, unless it does not
/// wait any more.
class GANTRY_API Request {
 public:
  Request() noexcept;
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;
  ~Request();

  /// What the client sent.
  [[nodiscard]] const Message& message() const noexcept;
  /// Who sent it.
  [[nodiscard]] const Sender& sender() const noexcept;
  /// The call's number at its client.
  [[nodiscard]] std::uint64_t correlation() const noexcept;
  /// Time until the deadline; `nanoseconds::max()` without one, never negative.
  [[nodiscard]] std::chrono::nanoseconds remaining() const noexcept;
  /// True if nobody waits for the answer any more: the request was cancelled, is past its deadline,
  /// or its client is gone. Reads what the clients have sent meanwhile, unless another thread is in
  /// Server::next().
  [[nodiscard]] bool is_cancelled();

  /// Answers, once. Errors: `peer_gone` when the client is gone; `timed_out` when it has no room:
  /// try again, or drop the request (a client that still has no room is hung up on);
  /// `invalid_argument` when the request has been answered.
  [[nodiscard]] Result<void> reply(ConstByteSpan payload, const ReplyOptions& options = {});
  [[nodiscard]] Result<void> reply(Draft draft, const ReplyOptions& options = {});
  /// Lends memory for the reply, where the client will read it.
  [[nodiscard]] Result<Loan> loan(Bytes size, Deadline deadline = Deadline::now());
  /// Answers with what lies in the loan, without a copy.
  [[nodiscard]] Result<void> reply(Loan loan, const ReplyOptions& options = {});
  /// Fails the client's call with `error`.
  [[nodiscard]] Result<void> refuse(const Error& error);

  class Impl;
  explicit Request(std::unique_ptr<Impl> impl) noexcept;

 private:
  std::unique_ptr<Impl> impl_;
};

/// What a server takes, and of how many clients.
struct ServerOptions {
  /// As for an inbox, but when_slow must be `block`: otherwise requests would be lost.
  ConsumerOptions channel{};
  PayloadOptions replies{};  ///< For each client; `channel` has the options of the end.
  ReceiveLimits total{};     ///< What all clients together may cost this process, as for an inbox.
  unsigned clients = 64;     ///< Clients at a time. Each costs some twelve descriptors.
};

/// What a server has counted since it was opened.
struct ServerReport {
  std::size_t clients = 0;      ///< Connected now.
  std::uint64_t requests = 0;   ///< Requests that next() returned.
  std::uint64_t expired = 0;    ///< Requests whose deadline had passed.
  std::uint64_t cancelled = 0;  ///< Requests that were cancelled or lost their client.
};

/// Answers any number of clients. next() is for one thread at a time; requests are for any.
class GANTRY_API Server {
 public:
  /// Errors: as Inbox::open().
  [[nodiscard]] static Result<Server> open(std::string_view name, const ServerOptions& options,
                                           std::shared_ptr<Engine> engine);
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  ~Server();  ///< The clients see `peer_gone`.

  /// Returns the next request that somebody waits for; clients take turns. Errors: as
  /// Inbox::receive().
  [[nodiscard]] Result<Request> next(Deadline deadline = Deadline::never());
  /// As Inbox::event_descriptor(), for next().
  [[nodiscard]] Result<int> event_descriptor();
  /// Counted so far.
  [[nodiscard]] ServerReport report() const;

  class Impl;

 private:
  explicit Server(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
};

}  // namespace gantry
