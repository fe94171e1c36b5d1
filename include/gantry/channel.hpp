#pragma once  // gantry/channel.hpp: a session between processes: producers, consumers, credits,
              // counters.

#include <array>
#include <gantry/channel/message.hpp>
#include <gantry/engine.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gantry {

struct ChannelExplanation;  // <gantry/status.hpp>, as is everything about looking at channels
struct ConsumerExplanation;

// ---- where channels live -------------------------------------------------------------------

/// The folder in which channels are found: `given` if not empty, else $GANTRY_DIR, else
/// $XDG_RUNTIME_DIR/gantry, else gantry-UID under the temporary directory. Whether it is there and
/// fit is not asked.
[[nodiscard]] GANTRY_API std::string channel_directory_path(std::string_view given = {});

/// That folder, made (mode 0700) when missing. Errors: `permission_denied` when others can use it
/// in any way, or it is not ours.
[[nodiscard]] GANTRY_API Result<std::string> channel_directory(std::string_view given = {});

/// Letters, digits, '.', '_' and '-', at most 64, not beginning with '.'.
[[nodiscard]] GANTRY_API Result<void> check_channel_name(std::string_view name);

// ---- counters ------------------------------------------------------------------------------

/// What one end of a channel counted so far. Times in nanoseconds.
struct MetricsReport {
  bool opened = false;                                     ///< The end exists (or existed).
  bool connected = false;                                  ///< It has met its peer.
  std::uint64_t messages = 0;                              ///< Published, or received.
  std::uint64_t bytes = 0;                                 ///< Their payload.
  std::array<std::uint64_t, kCopyEngines> copies{};        ///< Payload copies, by CopyEngine.
  std::array<std::uint64_t, kCopyEngines> copied_bytes{};  ///< The bytes of those copies.
  std::uint64_t copy_ns = 0;  ///< Time spent copying before hand-off (user-space copies).
  std::uint64_t cpu_ns = 0;   ///< CPU time inside this end's calls, waiting included.
  std::uint64_t wait_ns = 0;  ///< Time blocked: no credit, or nothing to receive.
  /// Receiving end: from the later of "published" and "asked for" to "in hand, whole".
  std::uint64_t handoff_p50_ns = 0;
  std::uint64_t handoff_p99_ns = 0;
  std::uint64_t handoff_p999_ns = 0;
  std::uint64_t handoff_total_ns = 0;
  /// Receiving end: since it last took a message (of small ones, asked for it); 0: it took none.
  std::uint64_t idle_ns = 0;
};

class Meter;  // the writing side; private

/// A page of counters that one end writes and others may read while it lives or after.
class GANTRY_API Metrics {
 public:
  /// A page whose writer will be another process that inherits descriptor().
  [[nodiscard]] static Result<Metrics> create();
  /// A page that another process made. Takes ownership of `descriptor`, also on failure.
  [[nodiscard]] static Result<Metrics> adopt(int descriptor, bool writable);

  Metrics() noexcept;
  Metrics(Metrics&&) noexcept;
  Metrics& operator=(Metrics&&) noexcept;
  ~Metrics();

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] MetricsReport report() const;  ///< A consistent-enough snapshot; any time.
  [[nodiscard]] Meter* meter() const noexcept { return meter_; }  ///< For the end that counts.

 private:
  friend class MetricsMaker;
  Meter* meter_ = nullptr;
  int descriptor_ = -1;
};

// ---- options -------------------------------------------------------------------------------

/// A thread that serves the sockets of many ends, while there are any: ChannelOptions::acceptor.
class Acceptor;
[[nodiscard]] GANTRY_API Result<std::shared_ptr<Acceptor>> make_acceptor();

/// When a message is visible to its readers, and how they get it.
///             | send(): the caller copies           | send_async(): returns at once
///   whole     | synchronous: copied, then published | asynchronous: the same, behind the caller
///   pipelined | published, then copied: readers take chunks as they land; it ends up complete in
///             | a block
///   streamed  | published, then copied through a window that stays in the cache: readers take
///             | chunks as they land and must give each back before the next can come
///   immutable | as whole, in memory of its own, which the kernel then seals: nobody, the sender
///             | included, can change it any more. Costs a descriptor and a mapping a message
enum class SendMode : std::uint8_t {
  automatic,  ///< ChannelOptions::mode; there: by size.
  whole,
  pipelined,
  streamed,
  immutable,
};
[[nodiscard]] GANTRY_API std::string_view to_string(SendMode mode) noexcept;

/// What is done about a consumer that has as many unreleased messages as it may have. Numbers of
/// messages show it what it missed. While one is there whose policy is not `block`, nothing is
/// streamed but pipelined: a window would have to wait for it.
enum class SlowConsumer : std::uint8_t {
  block,        ///< The producer waits for it. What is not said below holds for this one.
  drop_newest,  ///< It is passed over: the message goes to the others only.
  disconnect,   ///< It is cut off: it may take what it was given and has landed, then `peer_gone`.
  drop_oldest,  ///< The oldest message that it has not taken is taken back, for the newest. What it
                ///< took it keeps. While it holds fewer than its depth, it finds the newest.
};
[[nodiscard]] GANTRY_API std::string_view to_string(SlowConsumer policy) noexcept;

/// Who may be at the other end besides processes of the same user and root's.
struct Access {
  /// Permissions of the socket file, producer only: whom the kernel lets connect at all. With
  /// group bits the file gets the first of `groups`.
  unsigned socket_mode = 0600;
  std::vector<unsigned> users{};   ///< Numbers. To both ends: also of whom a producer is accepted.
  std::vector<unsigned> groups{};  ///< Any of a process's groups counts.
  std::string token{};             ///< Must be the same at both ends. At most 64 bytes.
};

/// channel_directory() where others are to find channels, too, as `access` says: it may belong to
/// root or to a listed user, and others may pass through it (--x), no more: who can read it can
/// hold its lock.
[[nodiscard]] GANTRY_API Result<std::string> channel_directory(std::string_view given,
                                                               const Access& access);

/// What a sender may cost its receiver at most; 0: what suits the receiving process. A sender that
/// needs more is hung up on, with an error that says what to raise.
struct ReceiveLimits {
  /// Slabs of the sender's pool that the receiver knows at a time: each costs it a descriptor and a
  /// mapping. Of a consumer half of the limit of open files; of an inbox what its senders leave of
  /// that limit, together.
  std::uint64_t slabs = 0;
  /// Address space for these slabs. Half of the limit (ulimit -v), or of what a process has.
  Bytes mapped_bytes = 0;
  /// Private memory for streamed messages that are received whole, until they are released: at most
  /// half of the machine's, or of the control group's limit. What lands chunk by chunk costs none.
  Bytes gathered_bytes = 0;
};

struct ChannelOptions {
  std::string directory;  ///< Empty: channel_directory()'s rule.
  static constexpr unsigned kMaxSlots = 64;
  static constexpr unsigned kMaxConsumers = 32;
  /// Credits: messages that may be published and not yet released. 1 to kMaxSlots. Producer only.
  unsigned slots = 8;
  /// Credits in bytes: payload in blocks that is published and not yet released; a single larger
  /// message goes alone. 0: only the pool's budget limits it. Producer only.
  Bytes bytes_in_flight = 0;
  /// Payload memory. Producer only. `memory` empty: a pool of the channel's own, made by `pool`.
  /// A consumer maps whole slabs of it, read-only: share no pool between channels whose consumers
  /// must not see each other's messages.
  std::optional<Pool> memory{};
  PoolOptions pool{};
  /// How long a waiting end polls at most before it sleeps; a 64th while news come later. 0: never.
  std::chrono::nanoseconds spin{50'000};
  /// When this descriptor becomes readable, waiting calls return `interrupted`. Not owned.
  int interrupt_descriptor = -1;
  /// Where to count; -1: a page of the end's own. Owned by the end from then on.
  int metrics_descriptor = -1;
  /// How messages go whose SendOptions do not say. Producer only.
  SendMode mode = SendMode::automatic;
  /// Producer only: the CPUs that the thread behind send_async() is to run on, as far as the kernel
  /// lets it; there it polls for up to 100 ms after a send (unless `spin` is zero), as waking it
  /// costs the next send more than all else. Empty: those of the thread that calls send_async()
  /// first, which is of little use where that one is bound to a single CPU.
  std::vector<int> progress_cpus{};
  /// Producer only: threads that copy a payload of 4 MiB or more in send(), the caller among them:
  /// 1 or 2. 0: 2 where the calling thread may use three CPUs, or progress_cpus names some, on
  /// which the second is then to run.
  unsigned copy_threads = 0;
  /// Producer only: how many consumers may be there at a time. 1 to kMaxConsumers. With one, what
  /// a consumer that died had not taken waits for its successor; with more, unless it was the last.
  unsigned consumers = 1;
  /// Producer only: a consumer that joins gets the last so many messages first, of those that are
  /// still there. At most slots; they keep their slots.
  unsigned history = 0;
  /// Who may join, and whom to join. For users other than one's own the folder must let them pass
  /// (mode 711) and no more.
  Access access{};
  /// Consumer only: what its producer does when it is slow.
  SlowConsumer when_slow = SlowConsumer::block;
  /// Producer only: whether consumers may join with SlowConsumer::block, and so hold up all others.
  /// Else such a one gets `permission_denied`.
  bool consumers_may_block = true;
  /// Consumer only: messages it may have unreleased, at most the producer's slots. 0: all of them;
  /// half of them with a policy other than `block`, so that it cannot hold up the others.
  unsigned depth = 0;
  /// Consumer only: what its producer may cost it; of an inbox: what each of its producers may, by
  /// default its even share and a quarter of what is nobody's share.
  ReceiveLimits receive{};
  /// Producers, inboxes, servers and clients: the thread that lets peers in and sees them go. A
  /// Runtime has one for all that it opens. Empty: one of the end's own.
  std::shared_ptr<Acceptor> acceptor{};
};

struct SendOptions {
  /// For a credit. Of send_async(): also how long the message may wait behind others.
  Deadline deadline = Deadline::never();
  SendMode mode = SendMode::automatic;
  std::uint32_t type = 0;  ///< MessageInfo
  std::uint64_t user = 0;
  std::uint64_t correlation = 0;
  std::uint64_t deadline_ns = 0;
};

// ---- the sending end -----------------------------------------------------------------------

/// The sending end. One thread at a time. In a child of fork() every call on the copy of an end,
/// sending or receiving, is `invalid_argument`, and dropping the copy does nothing: it belongs to
/// the parent, and the child opens its own. Dropping it without close() tells the consumers that
/// the stream broke off: they get what was published, then `peer_gone`.
class GANTRY_API Producer {
 public:
  /// Takes the name and listens; consumers may come at any time later. Errors:
  /// `already_exists` when a live producer has the name, `invalid_argument` for names and options.
  [[nodiscard]] static Result<Producer> open(std::string_view name, const ChannelOptions& options,
                                             std::shared_ptr<Engine> engine);
  /// Comes to an inbox (gantry/inbox.hpp), waiting for it to appear until `deadline`: the name is
  /// the inbox's, all else is as after open(). When the inbox is gone, sending says `peer_gone`;
  /// wait_for_consumer() looks for its successor, which then gets what the old one had not taken.
  /// Errors: `timed_out`, `busy` when it has all the producers it takes, `permission_denied`,
  /// `invalid_argument` when the name is a producer's. ChannelOptions::consumers is not asked for.
  [[nodiscard]] static Result<Producer> connect(std::string_view name,
                                                const ChannelOptions& options,
                                                std::shared_ptr<Engine> engine,
                                                Deadline deadline = Deadline::never());
  Producer(Producer&&) noexcept;
  Producer& operator=(Producer&&) noexcept;
  ~Producer();

  /// Copies `payload` into shared memory, published by SendOptions::mode; it is the caller's again
  /// on return. Waits for a credit. Before any consumer has joined messages wait for the first;
  /// after the last has gone nothing is sent until there is another. Errors: `timed_out`,
  /// `peer_gone` (the last consumer left; also once it came back to life: the message is not sent),
  /// `interrupted`, `too_large`, `out_of_memory`, `invalid_argument` for a payload that cannot be
  /// read.
  [[nodiscard]] Result<void> send(ConstByteSpan payload, const SendOptions& options = {});
  [[nodiscard]] Result<void> send(ConstByteSpan payload, Deadline deadline) {
    return send(payload, SendOptions{.deadline = deadline});
  }
  /// Several segments as one message; see Draft. A draft without any has one empty segment.
  [[nodiscard]] Result<void> send(Draft draft, const SendOptions& options = {});
  /// Hands over a block of pool() without a copy. Who keeps another handle to it (Block::share())
  /// must not write to it until all readers gave it back. Errors: as above, and `invalid_argument`
  /// for an empty block or one of another pool; the block is gone then, too.
  [[nodiscard]] Result<void> send(GANTRY_TAKES(unconsumed) Block block,
                                  const SendOptions& options = {});

  /// As send(), but returns at once; what is copied must stay as it is until the ticket ends.
  /// Messages are published in the order of the calls, whatever the way. Errors: `busy` when
  /// kMaxUnsent are waiting; the others as the outcome of the ticket.
  [[nodiscard]] Result<Ticket> send_async(ConstByteSpan payload, const SendOptions& options = {});
  [[nodiscard]] Result<Ticket> send_async(Draft draft, const SendOptions& options = {});
  static constexpr std::size_t kMaxUnsent = 64;

  /// `done`: its buffer is the caller's again and the message is with its readers. Any thread.
  [[nodiscard]] Outcome outcome(Ticket ticket) const noexcept;
  /// Until the ticket ends; `timed_out` before, what went wrong after.
  [[nodiscard]] Result<void> wait(Ticket ticket, Deadline deadline = Deadline::never());
  /// For loops on poll() or epoll, after the first send_async(): readable when a ticket has ended
  /// since note_woken(). All tickets that are waited for are to be asked for then. Errors:
  /// `invalid_argument` before the first send_async().
  [[nodiscard]] Result<int> sent_descriptor();
  void note_woken() noexcept;

  /// Memory for a message of `size` bytes (at least 1). Waits for a credit; errors as send().
  [[nodiscard]] Result<Loan> loan(Bytes size, Deadline deadline = Deadline::never());
  /// Hands a loan of this producer over. Never waits for a credit. The loan is gone either way.
  [[nodiscard]] Result<void> publish(GANTRY_TAKES(unconsumed) Loan loan,
                                     const SendOptions& options = {});

  /// Where this channel's payload lies: what is allocated here can be sent as it is. Once it was
  /// asked for, the channel keeps no block for its next small message: the budget is yours.
  [[nodiscard]] Pool pool() const;

  /// Waits until so many consumers are there.
  [[nodiscard]] Result<void> wait_for_consumer(Deadline deadline = Deadline::never(),
                                               unsigned count = 1);

  /// Ends the stream, then waits until every consumer has received all of it. After an error the
  /// stream still counts as ended.
  [[nodiscard]] Result<void> close(Deadline deadline = Deadline::never());

  [[nodiscard]] MetricsReport metrics() const;

  /// What would be done with a payload of so many bytes and why, and how the channel stands: who
  /// reads, who holds what, who holds whom up. Any thread; takes microseconds.
  [[nodiscard]] ChannelExplanation explain(Bytes payload = Bytes{1} << 20) const;

  class Impl;

 private:
  explicit Producer(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
};

// ---- the receiving end ---------------------------------------------------------------------

/// A message that may still be landing: taken chunk by chunk, or whole at the end. Move-only;
/// dropped, the rest is not wanted. One thread, that of its consumer. When the consumer goes first
/// nothing more lands, and of a streamed one nothing may be read any more: `closed`.
class GANTRY_API Incoming {
 public:
  Incoming() noexcept;
  Incoming(Incoming&&) noexcept;
  Incoming& operator=(Incoming&&) noexcept;
  ~Incoming();

  [[nodiscard]] const MessageInfo& info() const noexcept;
  [[nodiscard]] Bytes size() const noexcept;    ///< Of the whole payload.
  [[nodiscard]] Bytes landed() const noexcept;  ///< So many from the front are there.
  /// Chunks go by and do not stay: SendMode::streamed.
  [[nodiscard]] bool is_streamed() const noexcept;

  /// What has landed behind the last chunk, waiting until there is something; empty at the end.
  /// Streamed: valid until the next call. Errors: `timed_out`, `interrupted`, `peer_gone` and
  /// `aborted` (the sender gave it up half-way); after the last two nothing more comes.
  [[nodiscard]] Result<ConstByteSpan> next(Deadline deadline = Deadline::never());
  /// Until the first `bytes` of the payload have landed: these. Not of a streamed one
  /// (`invalid_argument`). Errors as next().
  [[nodiscard]] Result<ConstByteSpan> wait_for(Bytes bytes, Deadline deadline = Deadline::never());
  /// The rest behind the last chunk, copied chunk by chunk as it lands. Returns how many bytes.
  /// Errors as next(); after `timed_out` or `interrupted` call again with the same buffer: it goes
  /// on where it was. `invalid_argument` when it does not fit, or when the buffer is another one
  /// and chunks of a streamed message have passed into the first; nothing is taken then.
  [[nodiscard]] Result<Bytes> into(ByteSpan destination, Deadline deadline = Deadline::never());
  /// All of it as a message, once. A streamed one is copied, and must be unread so far.
  [[nodiscard]] Result<Message> whole(Deadline deadline = Deadline::never());

  class Impl;
  explicit Incoming(std::unique_ptr<Impl> impl) noexcept;

 private:
  std::unique_ptr<Impl> impl_;
};

/// The receiving end. One thread at a time; messages may be released from any thread.
class GANTRY_API Consumer {
 public:
  /// Joins the channel, waiting for its producer to appear until `deadline`. Errors: `timed_out`,
  /// `already_exists` when it has all the consumers it takes, `busy` when former consumers of this
  /// user have too much of it in hand, `permission_denied`, `peer_misbehaved`, `peer_gone` when
  /// producers end as soon as they are found.
  [[nodiscard]] static Result<Consumer> open(std::string_view name, const ChannelOptions& options,
                                             Deadline deadline = Deadline::never());
  Consumer(Consumer&&) noexcept;
  Consumer& operator=(Consumer&&) noexcept;
  ~Consumer();

  /// The next message, whole; those that their sender gave up half-way are passed over. Errors:
  /// `closed` at the regular end, `peer_gone`, `timed_out`, `interrupted`, `peer_misbehaved`.
  [[nodiscard]] Result<Message> receive(Deadline deadline = Deadline::never());
  /// The next message as soon as it is visible, from its first byte. Errors as above, and
  /// `invalid_argument` while a streamed one is half-way in a buffer of receive_into().
  [[nodiscard]] Result<Incoming> receive_early(Deadline deadline = Deadline::never());
  /// The next message, copied chunk by chunk as it lands. A message that does not fit stays the
  /// next one: `invalid_argument`, which names its size. After `timed_out` as Incoming::into().
  struct Copied {
    Bytes bytes = 0;
    MessageInfo info;
  };
  [[nodiscard]] Result<Copied> receive_into(ByteSpan destination,
                                            Deadline deadline = Deadline::never());

  /// The next message of any of `consumers`, and whose it is. An end that is `closed` is passed
  /// over; `closed` is returned when all are.
  struct Any {
    std::size_t index;
    Message message;
  };
  [[nodiscard]] static Result<Any> receive_any(std::span<Consumer> consumers,
                                               Deadline deadline = Deadline::never());

  /// After `peer_gone`: joins the name's next producer. Messages still held stay valid.
  [[nodiscard]] Result<void> rejoin(Deadline deadline = Deadline::never());

  /// For loops on poll() or epoll: readable when receive() may have something to say. Only after a
  /// receive with a deadline that has passed said `timed_out` is it certain to become so; or one of
  /// a message that is landing (Incoming): then also when more of that has landed.
  [[nodiscard]] Result<int> event_descriptor();

  [[nodiscard]] MetricsReport metrics() const;

  /// How this end stands: what waits for it, what it holds and since when, what its producer does.
  [[nodiscard]] ConsumerExplanation explain() const;

  class Impl;

 private:
  explicit Consumer(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
};

/// Folders below the channel directory that belong to one running pipeline begin like this.
inline constexpr std::string_view kRunPrefix = "run-";

}  // namespace gantry
