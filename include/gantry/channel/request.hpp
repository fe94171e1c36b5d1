#pragma once  // gantry/channel/request.hpp: calls that are answered: correlation, deadlines,
              // cancellation.

#include <gantry/channel/inbox.hpp>

namespace gantry {

// ---- asking --------------------------------------------------------------------------------

struct CallOptions {
  /// Passed, the call fails with `timed_out` and its server drops the request if it has not begun.
  Deadline deadline = Deadline::never();
  std::uint32_t type =
      0;  ///< MessageInfo::type of the request. MessageInfo::user is not free here.
};

/// A call in flight. Move-only; dropped before its end it is cancelled. The thread of its client.
class GANTRY_API PendingReply {
 public:
  PendingReply() noexcept;
  PendingReply(PendingReply&&) noexcept;
  PendingReply& operator=(PendingReply&&) noexcept;
  ~PendingReply();

  /// The reply. Errors: what the server refused it with; `peer_gone` when the server died or left;
  /// `timed_out`: by the call's deadline it is over, by `deadline` it may be waited for again
  /// (is_over() tells); `interrupted`. Once only: taken, it is over.
  [[nodiscard]] Result<Message> wait(Deadline deadline = Deadline::never());
  /// wait() has nothing more to wait for, or has been answered.
  [[nodiscard]] bool is_over() const noexcept;
  /// Nobody wants it any more: the server is told, if its queue has room, and it is over.
  void cancel() noexcept;
  [[nodiscard]] std::uint64_t correlation() const noexcept { return correlation_; }
  /// See Client::event_descriptor(); for awaitables.
  [[nodiscard]] Result<int> event_descriptor();
  void note_woken() noexcept;  ///< It became readable, and everybody who waits is being asked.

 private:
  friend class Client;
  std::shared_ptr<class ClientLink> link_;
  std::uint64_t correlation_ = 0;
};

/// Its requests are sent as PayloadOptions say.
struct ClientOptions : EndOptions, PayloadOptions {
  ReceiveLimits receive{};  ///< What its server may cost it with the replies.
};

/// Asks one server. One thread at a time; several calls may be in flight.
class GANTRY_API Client {
 public:
  static constexpr std::size_t kMaxCalls = 64;  ///< In flight.

  /// Comes to the server of that name, waiting for it until `deadline`. Errors as
  /// Producer::connect().
  [[nodiscard]] static Result<Client> connect(std::string_view name, const ClientOptions& options,
                                              std::shared_ptr<Engine> engine,
                                              Deadline deadline = Deadline::never());
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();  ///< Calls in flight are over, with `peer_gone`; their server sees them cancelled.

  [[nodiscard]] Result<Message> call(ConstByteSpan payload, const CallOptions& options = {});
  [[nodiscard]] Result<Message> call(Draft draft, const CallOptions& options = {});
  /// Returns when the request is with its server; what was copied is the caller's again. Errors:
  /// `busy` when kMaxCalls are in flight; those of Producer::send().
  [[nodiscard]] Result<PendingReply> call_async(ConstByteSpan payload,
                                                const CallOptions& options = {});
  [[nodiscard]] Result<PendingReply> call_async(Draft draft, const CallOptions& options = {});
  /// Memory for a request, and its way.
  [[nodiscard]] Result<Loan> loan(Bytes size, Deadline deadline = Deadline::never());
  [[nodiscard]] Result<PendingReply> call_async(Loan loan, const CallOptions& options = {});

  /// Readable when a PendingReply may have become over; asked with a deadline that has passed, one
  /// that says `timed_out` is certain to make it so. All of them are to be asked then.
  [[nodiscard]] Result<int> event_descriptor();

  /// After `peer_gone`: finds the name's next server. Calls in flight are over.
  [[nodiscard]] Result<void> reconnect(Deadline deadline = Deadline::never());

 private:
  explicit Client(std::shared_ptr<class ClientLink> link) noexcept;
  std::shared_ptr<class ClientLink> link_;
};

// ---- answering -----------------------------------------------------------------------------

struct ReplyOptions {
  /// For room at the client's end, which it has unless it keeps many replies. By default a client
  /// without room is not waited for.
  Deadline deadline = Deadline::now();
  std::uint32_t type = 0;
};

/// A request in its server's hands. Move-only, one thread at a time, any thread; it may outlive its
/// server. Dropped unanswered its client gets `aborted`.
class GANTRY_API Request {
 public:
  Request() noexcept;
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;
  ~Request();

  [[nodiscard]] const Message& message() const noexcept;
  [[nodiscard]] const Sender& sender() const noexcept;
  [[nodiscard]] std::uint64_t correlation() const noexcept;
  /// Until its deadline; `nanoseconds::max()` without one, never negative.
  [[nodiscard]] std::chrono::nanoseconds remaining() const noexcept;
  /// Nobody waits for the answer any more: cancelled, past its deadline, or its client is gone.
  /// Looks at what the clients have sent meanwhile, unless another thread is in Server::next().
  [[nodiscard]] bool is_cancelled();

  /// Answers, once. Errors: `peer_gone` when the client is; `timed_out` when it has no room (then
  /// try again, or drop the request: the client is hung up on if it still has none);
  /// `invalid_argument` when it has been answered.
  [[nodiscard]] Result<void> reply(ConstByteSpan payload, const ReplyOptions& options = {});
  [[nodiscard]] Result<void> reply(Draft draft, const ReplyOptions& options = {});
  [[nodiscard]] Result<Loan> loan(Bytes size, Deadline deadline = Deadline::now());
  [[nodiscard]] Result<void> reply(Loan loan, const ReplyOptions& options = {});
  /// The client's call fails with this error.
  [[nodiscard]] Result<void> refuse(const Error& error);

  class Impl;
  explicit Request(std::unique_ptr<Impl> impl) noexcept;

 private:
  std::unique_ptr<Impl> impl_;
};

struct ServerOptions {
  ConsumerOptions channel{};  ///< As of an inbox.
  PayloadOptions replies{};   ///< To each client; what all ends say is said by `channel`.
  ReceiveLimits total{};      ///< As of an inbox: what all clients together may cost this process.
  unsigned clients = 64;      ///< At a time. Each costs some twelve descriptors.
};

struct ServerReport {
  std::size_t clients = 0;
  std::uint64_t requests = 0;   ///< Handed out by next().
  std::uint64_t expired = 0;    ///< Dropped: their deadline had passed.
  std::uint64_t cancelled = 0;  ///< Dropped: cancelled, or their client was gone.
};

/// Answers any number of clients. next() on one thread at a time; requests on any.
class GANTRY_API Server {
 public:
  [[nodiscard]] static Result<Server> open(std::string_view name, const ServerOptions& options,
                                           std::shared_ptr<Engine> engine);
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  ~Server();  ///< The clients see `peer_gone`.

  /// The next request that somebody waits for; clients take turns. Errors: as Inbox::receive().
  [[nodiscard]] Result<Request> next(Deadline deadline = Deadline::never());
  /// As Inbox::event_descriptor(), of next().
  [[nodiscard]] Result<int> event_descriptor();
  [[nodiscard]] ServerReport report() const;

  class Impl;

 private:
  explicit Server(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
};

}  // namespace gantry
