#pragma once  // gantry/call.hpp: inboxes, calls with replies, work queues, coroutines.

#include <concepts>
#include <coroutine>
#include <functional>
#include <gantry/channel.hpp>

namespace gantry {

/// A producer as its inbox knows it, by the kernel's data at the time of connecting.
struct Sender {
  std::uint64_t id = 0;  ///< Number within this inbox, from 1; never reused.
  int pid = 0;           ///< Process number; 0: the producer lives in another PID namespace.
  unsigned uid = 0;      ///< User of its process.
};

/// A producer that has gone. `closed`: it ended its stream and all of it was received; `peer_gone`:
/// it died or left before that; `peer_misbehaved`: the inbox disconnected it; `system` or
/// `out_of_memory`: the inbox had no descriptors or no memory left for its messages.
struct Departure {
  Sender sender;  ///< The producer that has gone.
  Error why;      ///< Reason; its code is one of those above.
};

/// Options of an inbox and limits for its producers.
struct InboxOptions {
  /// As for any consumer; when_slow, depth and receive apply to each producer.
  ConsumerOptions channel{};
  /// Number of producers that may be connected at a time. Each costs about six descriptors in this
  /// process, and the memory of its messages.
  unsigned producers = 64;
  static constexpr unsigned kMaxProducers = 4096;  ///< Upper limit of `producers`.
  /// Limits for all producers together. Half is divided evenly, so that each producer has its share
  /// whatever the others use; see also channel.receive.
  ReceiveLimits total{};
  /// Called once for each producer that goes, within receive(), after its last message was
  /// returned. Must not use the inbox.
  std::function<void(const Departure&)> on_departure{};
};

/// A receiving end to which any number of producers connect (Producer::connect()). Each producer
/// has a separate ring, credits and memory: one that misbehaves, dies or does not read harms only
/// itself. Used by one thread at a time; any thread may release messages.
class GANTRY_API Inbox {
 public:
  /// Takes the name; from then on producers may connect, even while receive() does not run. Errors:
  /// `already_exists`, `invalid_argument`, `permission_denied`.
  [[nodiscard]] static Result<Inbox> open(std::string_view name, const InboxOptions& options = {});
  Inbox(Inbox&&) noexcept;
  Inbox& operator=(Inbox&&) noexcept;
  ~Inbox();  ///< The producers get `peer_gone`.

  /// A message and its producer.
  struct Delivery {
    Sender sender;    ///< The producer, even if it has gone since.
    Message message;  ///< The message, whole.
  };
  /// Returns the next message of any producer, whole. Producers with messages take turns. An inbox
  /// does not end: without producers it waits. Errors: `timed_out`, `interrupted`.
  [[nodiscard]] Result<Delivery> receive(Deadline deadline = Deadline::never());

  /// One descriptor for poll() or epoll, for all producers; see Consumer::event_descriptor().
  [[nodiscard]] Result<int> event_descriptor();

  /// Connected producers that receive() has already noticed.
  [[nodiscard]] std::vector<Sender> senders() const;
  [[nodiscard]] MetricsReport metrics() const;  ///< Messages and bytes, of all producers so far.

  class Impl;

 private:
  explicit Inbox(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
};

// Calls with replies: clients, then servers.

// ---- clients -------------------------------------------------------------------------------

/// Deadlines and tag of a call.
struct CallOptions {
  /// After the deadline, the call fails with `timed_out`, and the server drops the request if it
  /// has not begun.
  Deadline deadline = Deadline::never();
  std::uint32_t type =
      0;  ///< MessageInfo::type of the request. Calls use MessageInfo::user themselves.
  /// How long to wait for room at the server, at most until `deadline`.
  Deadline room = Deadline::never();
};

/// A call in flight. Move-only; dropping it before it is over cancels the call. Used by its
/// client's thread.
class GANTRY_API PendingReply {
 public:
  PendingReply() noexcept;
  PendingReply(PendingReply&&) noexcept;
  PendingReply& operator=(PendingReply&&) noexcept;
  ~PendingReply();

  /// Waits for the reply and returns it, once. Errors: the error with which the server refused the
  /// call; `peer_gone` when the server died or left; `system` or `out_of_memory` when the server
  /// lives, but one side had no descriptors or no memory left; `timed_out`: past the call's
  /// deadline the call is over, past `deadline` it may be awaited again (is_over() tells which);
  /// `interrupted`.
  [[nodiscard]] Result<Message> wait(Deadline deadline = Deadline::never());
  /// True if wait() has nothing more to wait for, or has returned the reply.
  [[nodiscard]] bool is_over() const noexcept;
  /// Ends the call. The server is informed if its queue has room.
  void cancel() noexcept;
  /// Number of the call; the server can log it.
  [[nodiscard]] std::uint64_t correlation() const noexcept { return correlation_; }
  /// For awaitables; see Client::event_descriptor().
  [[nodiscard]] Result<int> event_descriptor();
  /// Call note_woken() when the descriptor has become readable, before checking the waiters.
  void note_woken() noexcept;

 private:
  friend class Client;
  std::shared_ptr<class ClientLink> link_;
  std::uint64_t correlation_ = 0;
};

/// Options of a client; PayloadOptions apply to its requests.
struct ClientOptions : EndOptions, PayloadOptions {
  ReceiveLimits receive{};  ///< Limits for the server's replies.
};

/// Calls one server. Used by one thread at a time; several calls may be in flight.
class GANTRY_API Client {
 public:
  static constexpr std::size_t kMaxCalls = 64;  ///< Largest number of calls in flight.

  /// Connects to the server of that name and waits until `deadline` for it to appear. Errors: as
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
  /// Sends a request without waiting for its reply. Returns when the server's queue has the
  /// request; the caller may then reuse a copied payload. Errors: `busy` when kMaxCalls are in
  /// flight; those of Producer::send().
  [[nodiscard]] Result<PendingReply> call_async(ConstByteSpan payload,
                                                const CallOptions& options = {});
  [[nodiscard]] Result<PendingReply> call_async(Draft draft, const CallOptions& options = {});
  /// Lends memory for a request, which call_async() then sends.
  [[nodiscard]] Result<Loan> loan(Bytes size, Deadline deadline = Deadline::never());
  /// Sends a request that lies in a loan of this client.
  [[nodiscard]] Result<PendingReply> call_async(Loan loan, const CallOptions& options = {});

  /// A descriptor for poll() or epoll; readable when a PendingReply may be over, but reliably only
  /// after a wait() with an expired deadline has returned `timed_out`. When the descriptor has
  /// become readable, check every pending reply.
  [[nodiscard]] Result<int> event_descriptor();

  /// Checks the connection without waiting. Errors: the reason why further calls cannot be made;
  /// calls in flight still return replies that arrived before.
  [[nodiscard]] Result<void> check();

  /// After `peer_gone`: connects to the next server of the name. Calls in flight are over. After
  /// `system` or `out_of_memory` the same server still exists; first correct the shortage.
  [[nodiscard]] Result<void> reconnect(Deadline deadline = Deadline::never());

 private:
  friend class FarSides;
  explicit Client(std::shared_ptr<class ClientLink> link) noexcept;
  template <class Payload>
  GANTRY_LOCAL Result<PendingReply> ask(Payload payload, const CallOptions& options);
  void attach(std::shared_ptr<detail::FarSide> far_side);
  std::shared_ptr<class ClientLink> link_;
};

// ---- servers -------------------------------------------------------------------------------

/// Deadline and tag of a reply.
struct ReplyOptions {
  /// How long to wait for room at the client; room is missing only if the client keeps many
  /// replies. The default does not wait.
  Deadline deadline = Deadline::now();
  std::uint32_t type = 0;  ///< Free tag that the server sets: MessageInfo::type of the reply.
};

/// A request that its server has received. Move-only; any thread may use the request, one at a
/// time. May outlive its server. If the request is dropped without an answer, its client gets
/// `aborted`, unless the client no longer waits.
class GANTRY_API Request {
 public:
  Request() noexcept;
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;
  ~Request();

  /// The message that the client sent.
  [[nodiscard]] const Message& message() const noexcept;
  /// The client.
  [[nodiscard]] const Sender& sender() const noexcept;
  /// Number of the call at its client.
  [[nodiscard]] std::uint64_t correlation() const noexcept;
  /// Time until the deadline, never negative; `nanoseconds::max()` if there is no deadline.
  [[nodiscard]] std::chrono::nanoseconds remaining() const noexcept;
  /// True if the client no longer waits for the answer: the request was cancelled, is past its
  /// deadline, or the client is gone. Reads new input from the clients, unless another thread is in
  /// Server::next().
  [[nodiscard]] bool is_cancelled();

  /// Answers, once. Errors: `peer_gone` when the client is gone; `timed_out` when it has no room:
  /// try again, or drop the request (the server disconnects a client that still has no room);
  /// `invalid_argument` when the request was already answered.
  [[nodiscard]] Result<void> reply(ConstByteSpan payload, const ReplyOptions& options = {});
  [[nodiscard]] Result<void> reply(Draft draft, const ReplyOptions& options = {});
  /// Lends memory for the reply, where the client will read it.
  [[nodiscard]] Result<Loan> loan(Bytes size, Deadline deadline = Deadline::now());
  /// Answers with the loan, without a copy.
  [[nodiscard]] Result<void> reply(Loan loan, const ReplyOptions& options = {});
  /// Fails the client's call with `error`.
  [[nodiscard]] Result<void> refuse(const Error& error);

  class Impl;
  explicit Request(std::unique_ptr<Impl> impl) noexcept;

 private:
  std::unique_ptr<Impl> impl_;
};

/// Options of a server and limits for its clients.
struct ServerOptions {
  /// As for an inbox, but when_slow must be `block`: otherwise requests would be lost.
  ConsumerOptions channel{};
  /// For the replies to each client; the options of the end are in `channel`.
  PayloadOptions replies{};
  ReceiveLimits total{};  ///< Limits for all clients together, as for an inbox.
  unsigned clients = 64;  ///< Number of clients at a time. Each costs some twelve descriptors.
};

/// Counters of a server since it was opened.
struct ServerReport {
  std::size_t clients = 0;      ///< Clients connected now.
  std::uint64_t requests = 0;   ///< Requests that next() returned.
  std::uint64_t expired = 0;    ///< Requests whose deadline had passed.
  std::uint64_t cancelled = 0;  ///< Requests that were cancelled or lost their client.
};

/// Answers any number of clients. One thread at a time may call next(); any thread may use
/// requests.
class GANTRY_API Server {
 public:
  /// Opens a server. Errors: as Inbox::open().
  [[nodiscard]] static Result<Server> open(std::string_view name, const ServerOptions& options,
                                           std::shared_ptr<Engine> engine);
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  ~Server();  ///< The clients get `peer_gone`.

  /// Returns the next request whose client still waits; clients take turns. Errors: as
  /// Inbox::receive().
  [[nodiscard]] Result<Request> next(Deadline deadline = Deadline::never());
  /// As Inbox::event_descriptor(), for next().
  [[nodiscard]] Result<int> event_descriptor();
  /// Counters so far.
  [[nodiscard]] ServerReport report() const;

  class Impl;

 private:
  explicit Server(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
};

// ---- competing consumers: each item goes to one worker ------------------------------------------

/// Options of a work queue and limits for its members.
struct WorkQueueOptions {
  /// Options of the queue's end of each connection: the folder, access, and limits for each member.
  /// The queue takes one name in the folder, its own.
  ConsumerOptions channel{};
  PayloadOptions replies{};  ///< How items are sent to each worker.
  ReceiveLimits total{};     ///< Limits for all members together, as for an inbox.
  unsigned members = 64;     ///< Number of processes that may be connected at a time.
  /// Number of small items held as copies at a time, so that their members need not keep them.
  /// Items beyond this number, and items larger than kMostCopied, stay in the memory of the member
  /// that put them; that member waits while it has PayloadOptions::slots items there.
  std::size_t most_copied = 65'536;
  /// Size of the largest item that is copied.
  static constexpr Bytes kMostCopied = Bytes{64} << 10;
  /// Number of times that an item is handed out; then it is dropped if not acknowledged. 0: no
  /// limit.
  unsigned most_tries = 0;
  /// Number of items that may wait, for members that reserve() a place before each put(). 0: no
  /// limit.
  std::size_t most_items = 0;
};

/// Contents of a queue now, and its counters since it was opened.
struct WorkQueueReport {
  std::size_t members = 0;          ///< Members connected now.
  std::size_t waiting_items = 0;    ///< Items that were not handed out yet.
  std::size_t in_hand = 0;          ///< Items handed out and not acknowledged.
  std::size_t waiting_workers = 0;  ///< Workers in get() now.
  std::uint64_t put = 0;            ///< Items that the queue has taken in.
  std::uint64_t acknowledged = 0;   ///< Items that were acknowledged.
  /// Items handed out again, because their worker left or gave them back.
  std::uint64_t redelivered = 0;
  /// Items dropped after `most_tries`, or put after finish(). Each member that the queue
  /// disconnected also counts as one item here, although the member may have lost more.
  std::uint64_t dropped = 0;
};

class WorkItem;

/// The queue: a thread of this process that takes items in and hands them out, first come, first
/// served, for both items and workers. Large items go from member to member without a copy. When
/// the queue is destroyed, its members get `peer_gone`, and its items are lost.
class GANTRY_API WorkQueue {
 public:
  /// Opens a queue. Errors: `already_exists`, `invalid_argument` (also for a name that
  /// check_channel_name() refuses), `permission_denied`, `system`.
  [[nodiscard]] static Result<WorkQueue> open(std::string_view name,
                                              const WorkQueueOptions& options,
                                              std::shared_ptr<Engine> engine);
  WorkQueue(WorkQueue&&) noexcept;
  WorkQueue& operator=(WorkQueue&&) noexcept;
  ~WorkQueue();

  /// Ends the queue's input; returns before the queue's thread notices. Items put from then on are
  /// dropped. Workers get the remaining items, including returned ones, and then `closed`, even if
  /// this queue is gone by then. Any thread.
  void finish() noexcept;
  /// Waits until every item is acknowledged or dropped. Errors: `timed_out`; the reason why the
  /// queue has ended; and, once per case, the reason why it disconnected a member (`too_large`,
  /// `out_of_memory`, `peer_misbehaved`, `system`), whose items are lost.
  [[nodiscard]] Result<void> wait_until_done(Deadline deadline = Deadline::never());
  [[nodiscard]] WorkQueueReport report() const;  ///< Any thread.

  // For the process of the queue, without a member and without a message. Any thread.
  /// Puts a copy of a small item. False: this one must be put by a member (it is larger than
  /// WorkMember::kMostBatchedItem, the queue has WorkQueueOptions::most_items, or holds
  /// most_copied). Items of put_here() and of a member of this process have no order among each
  /// other. Errors: `invalid_argument` (it cannot be read), `peer_gone`.
  [[nodiscard]] Result<bool> put_here(ConstByteSpan payload);
  /// The same of each, in their order and several in one turn: returns how many were put, the first
  /// ones. The next one must be put by a member, or the next call says why it was not put.
  [[nodiscard]] Result<std::size_t> put_here(std::span<const ConstByteSpan> items);
  /// Returns the next item, acknowledged, if a small one is next and no worker waits. If there is
  /// none, waits for it until `deadline`, before workers that come later. One thread waits so at a
  /// time. A readable `interrupt_descriptor` (-1: none) ends the wait. Errors: `timed_out` (also
  /// before the deadline: get() of a member finds out what there is), `interrupted`, `peer_gone`.
  [[nodiscard]] Result<WorkItem> take_here(Deadline deadline = Deadline::now(),
                                           int interrupt_descriptor = -1);
  /// The same of up to `most` small items that are there: at least one. Errors also:
  /// `invalid_argument` (`most` is 0).
  [[nodiscard]] Result<std::vector<WorkItem>> take_many_here(std::size_t most,
                                                             Deadline deadline = Deadline::now(),
                                                             int interrupt_descriptor = -1);

  class Impl;

 private:
  explicit WorkQueue(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
};

/// When an item counts as done, so that no other worker gets it.
enum class Acknowledge : std::uint8_t {
  on_get,   ///< When get() returns it. Items that their worker does not finish are lost.
  by_hand,  ///< By WorkItem::done(). If the worker dies or leaves before that, another worker gets
            ///< the item.
};

/// Options of a member, which puts items, gets items, or both.
struct WorkMemberOptions : EndOptions, PayloadOptions {
  ReceiveLimits receive{};                        ///< Limits for the items that this process gets.
  Acknowledge acknowledge = Acknowledge::on_get;  ///< For the items that this member gets.
};

/// An item returned by get(). Move-only; it may outlive its member. Dropping it frees its memory.
/// If it was not acknowledged and its member still exists, dropping also returns it to the queue.
class GANTRY_API WorkItem {
 public:
  WorkItem() noexcept;
  WorkItem(WorkItem&&) noexcept;
  WorkItem& operator=(WorkItem&&) noexcept;
  ~WorkItem();

  /// Number of segments in the payload, one for each segment that was put.
  [[nodiscard]] std::size_t segments() const noexcept;
  /// One segment; `index` must be below segments().
  [[nodiscard]] Segment segment(std::size_t index) const& noexcept;
  Segment segment(std::size_t index) const&& = delete;  // name the item first
  /// The payload, or its first segment; valid as long as the item.
  [[nodiscard]] ConstByteSpan bytes() const& noexcept { return segment(0).bytes; }
  ConstByteSpan bytes() const&& = delete;
  /// The message that was received; its last segment belongs to the queue. Empty for an item that
  /// came with others in one message (get_many()).
  [[nodiscard]] const Message& message() const noexcept { return message_; }
  /// Number of the put, from 1.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// Number of times handed out; 1: no worker had it before.
  [[nodiscard]] unsigned tries() const noexcept { return tries_; }

  /// Acknowledges the item. Its payload stays readable. Errors: `peer_gone` (the queue has ended);
  /// `invalid_argument` (already acknowledged).
  [[nodiscard]] Result<void> done();
  [[nodiscard]] explicit operator bool() const noexcept { return tries_ != 0; }

 private:
  friend class WorkMember;
  friend class WorkQueue;
  class Acknowledger;
  void give_back() noexcept;

  Message message_;
  std::shared_ptr<const void> batch_;           // of an item that came with others
  ConstByteSpan part_;                          // of batch_
  std::shared_ptr<Acknowledger> acknowledger_;  // null: no acknowledgement is due
  std::uint64_t number_ = 0;
  unsigned tries_ = 0;
};

/// A member of a queue that puts items, gets items, or both. Used by one thread at a time.
class GANTRY_API WorkMember {
 public:
  /// Connects to the queue of that name and waits until `deadline` for it to appear. Errors: as
  /// Producer::connect().
  [[nodiscard]] static Result<WorkMember> connect(std::string_view name,
                                                  const WorkMemberOptions& options,
                                                  std::shared_ptr<Engine> engine,
                                                  Deadline deadline = Deadline::never());
  WorkMember(WorkMember&&) noexcept;
  WorkMember& operator=(WorkMember&&) noexcept;
  ~WorkMember();  ///< Items that it has not acknowledged go to other workers.

  /// Puts an item; on return the caller may reuse the payload. Waits while PayloadOptions::slots
  /// items of this member lie in its memory. Errors: as Producer::send().
  [[nodiscard]] Result<void> put(ConstByteSpan payload, Deadline deadline = Deadline::never());
  /// Puts several parts, at most kMaxSegments - 1, as one item.
  [[nodiscard]] Result<void> put(Draft draft, Deadline deadline = Deadline::never());
  /// Puts several items in their order, each of one segment; returns how many were put. Neighbours
  /// of at most kMostBatchedItem go in one message. An error is returned only if no item was put;
  /// if fewer than all were put, the next call returns the reason. Errors: as put().
  [[nodiscard]] Result<std::size_t> put_many(std::span<const ConstByteSpan> items,
                                             Deadline deadline = Deadline::never());
  static constexpr std::size_t kMostBatched = 256;           ///< Items in one message.
  static constexpr Bytes kMostBatchedItem = Bytes{4} << 10;  ///< Larger items go alone.
  static constexpr Bytes kMostBatchBytes = Bytes{64} << 10;  ///< Of all items in one message.
  /// Pool of this member; its blocks are put without a copy.
  [[nodiscard]] Pool pool() const;

  /// Returns the next item for this worker. After `timed_out`, get() keeps its place in the line,
  /// and the next get() continues. The first get() also opens the return path, in up to a second,
  /// whatever the deadline. Errors: `timed_out`, `interrupted`; `closed` (the queue was finished
  /// and is empty); `busy` (this member holds WorkQueueOptions::replies.slots items); `peer_gone`.
  [[nodiscard]] Result<WorkItem> get(Deadline deadline = Deadline::never());
  /// As get(), for up to `most` items that wait now (1 to kMostBatched; more is as kMostBatched).
  /// Returns one at least. Small items come together; a large one comes alone. A member gets at
  /// most its share of the items if other members wait in the line. Items count as tried when this
  /// has returned them. A get() or get_many() for another number of items leaves its place in the
  /// line. Items do not take WorkQueueOptions::replies.slots if they come together. Errors: as
  /// get(); `invalid_argument` (0 items).
  [[nodiscard]] Result<std::vector<WorkItem>> get_many(std::size_t most,
                                                       Deadline deadline = Deadline::never());
  /// After a get() that timed out or was interrupted: leaves the line, so that the next item goes
  /// to another worker. Returns an item that was already handed out; otherwise `timed_out`, because
  /// an item did not come or the queue did not answer by `deadline`. If the queue did not answer,
  /// it takes back any item that it has handed out.
  [[nodiscard]] Result<WorkItem> withdraw(Deadline deadline = Deadline::never());
  /// The same after a get_many(). If that was for more than `most`, or withdraw() is called after
  /// it, nothing is returned: the queue takes all back.
  [[nodiscard]] Result<std::vector<WorkItem>> withdraw_many(Deadline deadline = Deadline::never(),
                                                            std::size_t most = kMostBatched);

  // Requests to the queue. A request that was interrupted or timed out continues when it is
  // repeated. Errors of all: `timed_out`, `interrupted`, `peer_gone`.
  /// Waits for room for one item and keeps it until the next put(). A reserve() that has timed out
  /// keeps nothing; it waits up to one more second for the queue's confirmation.
  [[nodiscard]] Result<void> reserve(Deadline deadline = Deadline::never());
  /// Returns one place of reserve() to others, if put() does not follow.
  [[nodiscard]] Result<void> give_place_back();
  /// Contents and counters of the queue, including everything that this process put before.
  [[nodiscard]] Result<WorkQueueReport> report(Deadline deadline = Deadline::never());
  /// Counts one item as finished, for wait_until_finished(); independent of WorkItem::done().
  /// Errors: `invalid_argument` (all items that were put are already finished).
  [[nodiscard]] Result<void> task_done(Deadline deadline = Deadline::never());
  /// Waits until as many items are finished as were put.
  [[nodiscard]] Result<void> wait_until_finished(Deadline deadline = Deadline::never());
  /// As WorkQueue::wait_until_done(), from any process.
  [[nodiscard]] Result<void> wait_until_done(Deadline deadline = Deadline::never());
  /// A descriptor for poll() or epoll. Once a get() with an expired deadline has returned
  /// `timed_out`, the descriptor is readable when get() may have a result.
  [[nodiscard]] Result<int> event_descriptor();

  class Impl;

 private:
  explicit WorkMember(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

// Coroutines that wait for messages, on Gantry's event loop or any other.

// ---- coroutines ----------------------------------------------------------------------------

template <class T = void>
class Task;

namespace detail {

/// Common part of all tasks' promises. Nothing here throws: an exception that leaves a coroutine
/// ends the process.
class TaskPromise {
 public:
  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  struct Finish {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    [[nodiscard]] std::coroutine_handle<> await_suspend(
        std::coroutine_handle<Promise> done) const noexcept {
      const auto next = done.promise().continuation;
      return next ? next : std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };
  [[nodiscard]] Finish final_suspend() const noexcept { return {}; }
  [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }

  std::coroutine_handle<> continuation;  ///< The coroutine that awaits this one.
};

template <class T>
class ValuePromise : public TaskPromise {
 public:
  [[nodiscard]] Task<T> get_return_object() noexcept;
  template <class U>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  [[nodiscard]] T take() { return std::move(*value_); }

 private:
  std::optional<T> value_;
};

template <>
class ValuePromise<void> : public TaskPromise {
 public:
  [[nodiscard]] Task<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void take() const noexcept {}
};

}  // namespace detail

/// A coroutine that begins when it is awaited or spawned. Move-only. Dropping a suspended task
/// cancels it: the task is destroyed together with everything it awaits.
template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::ValuePromise<T>;

  Task() noexcept = default;
  explicit Task(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  /// True when the task has ended, and for a task without a coroutine.
  [[nodiscard]] bool is_done() const noexcept { return !handle_ || handle_.done(); }
  /// The coroutine, which the task still owns.
  [[nodiscard]] std::coroutine_handle<promise_type> handle() const noexcept { return handle_; }

  // A task can be awaited once.
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  [[nodiscard]] std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) noexcept {
    handle_.promise().continuation = awaiting;
    return handle_;
  }
  T await_resume() { return handle_.promise().take(); }

 private:
  std::coroutine_handle<promise_type> handle_;
};

template <class T>
Task<T> detail::ValuePromise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<ValuePromise<T>>::from_promise(*this));
}
inline Task<void> detail::ValuePromise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<ValuePromise<void>>::from_promise(*this));
}

// ---- loops ---------------------------------------------------------------------------------

/// Requirements on a loop for the awaitables below: your own loop, or EventLoop.
///   watch    Resumes `waiting` once, on the loop's thread, when `descriptor` is readable
///            (level-triggered: also if it already is), but not from within watch(). Several may
///            wait for the same descriptor; all of them are resumed before the loop polls
///            descriptors again. After an error the descriptor is not watched.
///   unwatch  Ends the watch. Never called after the coroutine was resumed.
template <class Loop>
concept Watcher = requires(Loop& loop, int descriptor, std::coroutine_handle<> waiting) {
  { loop.watch(descriptor, waiting) } -> std::same_as<Result<void>>;
  { loop.unwatch(descriptor, waiting) } noexcept;
};

/// A minimal loop on epoll(7). Used by one thread, except stop(). It sleeps while no descriptor is
/// ready. Must not be moved while a coroutine waits on it.
class GANTRY_API EventLoop {
 public:
  /// Makes a loop without tasks. Errors: `system` (no descriptor is left).
  [[nodiscard]] static Result<EventLoop> create();
  EventLoop(EventLoop&&) noexcept;
  EventLoop& operator=(EventLoop&&) noexcept;
  /// Destroys suspended tasks. The ends that these tasks wait for must live until then.
  ~EventLoop();

  /// Takes the task over; the task begins in run().
  void spawn(Task<> task);
  /// Runs until no task is left, or until stop(); may then be called again. Errors: `busy` within
  /// run().
  Result<void> run();
  void stop() noexcept;  ///< Makes run() return before it resumes another task. Any thread.

  /// For awaitables: resumes `waiting` once, when the descriptor is readable.
  [[nodiscard]] Result<void> watch(int descriptor, std::coroutine_handle<> waiting);
  /// Cancels the wait of watch().
  void unwatch(int descriptor, std::coroutine_handle<> waiting) noexcept;

  class Impl;

 private:
  explicit EventLoop(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};
static_assert(Watcher<EventLoop>);

// ---- awaitables ----------------------------------------------------------------------------

/// co_await readable(descriptor, loop) waits until the descriptor is readable; an error of watch()
/// is returned at once.
template <Watcher Loop>
class Readable {
 public:
  /// The wait begins when the object is awaited.
  Readable(int descriptor, Loop& loop) noexcept : descriptor_(descriptor), loop_(loop) {}
  Readable(const Readable&) = delete;
  Readable& operator=(const Readable&) = delete;
  ~Readable() {
    if (waiting_) loop_.unwatch(descriptor_, waiting_);
  }

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  [[nodiscard]] bool await_suspend(std::coroutine_handle<> waiting) {
    watched_ = loop_.watch(descriptor_, waiting);
    if (!watched_) return false;
    waiting_ = waiting;
    return true;
  }
  [[nodiscard]] Result<void> await_resume() noexcept {
    waiting_ = {};
    return std::move(watched_);
  }

 private:
  int descriptor_;
  Loop& loop_;
  std::coroutine_handle<> waiting_;
  Result<void> watched_;
};
/// Makes a Readable, which waits until the descriptor is readable.
template <Watcher Loop>
[[nodiscard]] Readable<Loop> readable(int descriptor, Loop& loop) noexcept {
  return Readable<Loop>(descriptor, loop);
}

namespace detail {

/// Asks a source again at each wake-up until it has an answer other than `timed_out`. ask() does
/// not wait. A source has
///   Value ask();  Result<int> descriptor();  void note_woken();  bool is_over();
template <class Source, class Loop>
auto ask_until_answered(Source& source, Loop& loop) -> Task<decltype(source.ask())> {
  using Answer = decltype(source.ask());
  for (;;) {
    const Result<int> descriptor = source.descriptor();
    if (!descriptor) co_return Answer(tl::unexpected(descriptor.error()));
    const Result<void> woken = co_await readable(*descriptor, loop);
    if (!woken) co_return Answer(tl::unexpected(woken.error()));
    source.note_woken();
    Answer answer = source.ask();
    if (answer || answer.error().code != Code::timed_out || source.is_over())
      co_return std::move(answer);
  }
}

/// Takes an answer without suspending if the answer is ready. Otherwise a separate coroutine waits,
/// so that spurious wake-ups do not resume the awaiter. Destroying the object ends the wait.
template <class Source, class Loop>
class Awaiting {
 public:
  using Answer = decltype(std::declval<Source&>().ask());
  Awaiting(Source source, Loop& loop) noexcept : source_(std::move(source)), loop_(loop) {}
  Awaiting(const Awaiting&) = delete;
  Awaiting& operator=(const Awaiting&) = delete;

  [[nodiscard]] bool await_ready() {
    // first: from here on the end signals the descriptor
    const Result<int> descriptor = source_.descriptor();
    answer_.emplace(descriptor ? source_.ask() : Answer(tl::unexpected(descriptor.error())));
    return *answer_ || answer_->error().code != Code::timed_out || source_.is_over();
  }
  [[nodiscard]] std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) {
    slow_ = ask_until_answered(source_, loop_);
    return slow_.await_suspend(awaiting);
  }
  [[nodiscard]] Answer await_resume() {
    return slow_.handle() ? slow_.await_resume() : std::move(*answer_);
  }

 private:
  Source source_;
  Loop& loop_;
  std::optional<Answer> answer_;
  Task<Answer> slow_;
};

/// A Consumer or an Inbox as a source.
template <class End>
struct ReceivingEnd {
  End* end;
  auto ask() { return end->receive(Deadline::now()); }
  auto descriptor() { return end->event_descriptor(); }
  void note_woken() const noexcept {}
  [[nodiscard]] bool is_over() const noexcept { return false; }
};
struct ServingEnd {
  Server* end;
  Result<Request> ask() const { return end->next(Deadline::now()); }
  Result<int> descriptor() const { return end->event_descriptor(); }
  void note_woken() const noexcept {}
  [[nodiscard]] bool is_over() const noexcept { return false; }
};
struct ReplyEnd {
  PendingReply* pending;
  Result<Message> ask() {
    const bool was_over = pending->is_over();
    auto answer = pending->wait(Deadline::now());
    over = was_over || pending->is_over();
    return answer;
  }
  Result<int> descriptor() const { return pending->event_descriptor(); }
  void note_woken() const noexcept { pending->note_woken(); }
  [[nodiscard]] bool is_over() const noexcept { return over; }
  bool over = false;
};
struct SentEnd {
  Producer* producer;
  Ticket ticket;
  Result<void> ask() const {
    if (producer->outcome(ticket) == Outcome::pending)
      return tl::unexpected(Error{Code::timed_out, "not yet sent", ""});
    over = true;
    return producer->wait(ticket);
  }
  Result<int> descriptor() const { return producer->sent_descriptor(); }
  void note_woken() const noexcept { producer->note_woken(); }
  [[nodiscard]] bool is_over() const noexcept { return over; }
  mutable bool over = false;
};

}  // namespace detail

// Each awaitable returns the result of the corresponding call, never `timed_out` for the wait
// itself. The end must outlive the wait. At most one coroutine at a time may wait for a consumer,
// an inbox or a server; any number may wait for replies and tickets.

/// co_await next(consumer, loop) -> Result<Message>
template <Watcher Loop>
[[nodiscard]] auto next(Consumer& consumer, Loop& loop) {
  return detail::Awaiting<detail::ReceivingEnd<Consumer>, Loop>({&consumer}, loop);
}
/// co_await next(inbox, loop) -> Result<Inbox::Delivery>
template <Watcher Loop>
[[nodiscard]] auto next(Inbox& inbox, Loop& loop) {
  return detail::Awaiting<detail::ReceivingEnd<Inbox>, Loop>({&inbox}, loop);
}
/// co_await next(server, loop) -> Result<Request>
template <Watcher Loop>
[[nodiscard]] auto next(Server& server, Loop& loop) {
  return detail::Awaiting<detail::ServingEnd, Loop>({&server}, loop);
}
/// co_await reply(pending, loop) -> Result<Message>; `timed_out` at the call's own deadline.
template <Watcher Loop>
[[nodiscard]] auto reply(PendingReply& pending, Loop& loop) {
  return detail::Awaiting<detail::ReplyEnd, Loop>({&pending}, loop);
}
/// co_await sent(producer, ticket, loop) -> Result<void>, as Producer::wait().
template <Watcher Loop>
[[nodiscard]] auto sent(Producer& producer, Ticket ticket, Loop& loop) {
  return detail::Awaiting<detail::SentEnd, Loop>({&producer, ticket}, loop);
}

}  // namespace gantry
