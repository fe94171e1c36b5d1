#pragma once  // gantry/channel.hpp: a session between processes: producers, consumers, credits,
              // counters.

#include <array>
#include <functional>
#include <gantry/channel/early_message.hpp>
#include <gantry/channel/message.hpp>
#include <gantry/channel/options.hpp>
#include <gantry/engine.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace gantry {

struct ChannelExplanation;  // in <gantry/channel/status.hpp>, as all that looks at channels
struct ConsumerExplanation;

// ---- where channels live -------------------------------------------------------------------

/// The folder in which channels are found: `given` if not empty, else $GANTRY_DIR, else
/// $XDG_RUNTIME_DIR/gantry, else gantry-UID under the temporary directory; of the last two only
/// absolute paths count. Does not check that the folder exists or is safe.
[[nodiscard]] GANTRY_API std::string channel_directory_path(std::string_view given = {});

/// Returns the path of that folder and makes it (mode 0700) when missing. Errors:
/// `permission_denied` when others can use it in any way, or it is not ours; `invalid_argument`
/// when it is no directory, or $GANTRY_DIR is relative: each process would look elsewhere.
[[nodiscard]] GANTRY_API Result<std::string> channel_directory(std::string_view given = {});

/// As channel_directory(), for a folder in which the others that `access` lists also find channels.
/// It may belong to root or to a listed user, and others may pass through it (--x) but not read it:
/// whoever can read the folder can hold its lock.
[[nodiscard]] GANTRY_API Result<std::string> channel_directory(std::string_view given,
                                                               const Access& access);

/// Accepts letters, digits, '.', '_' and '-', at most 64, not beginning with '.'.
[[nodiscard]] GANTRY_API Result<void> check_channel_name(std::string_view name);

// ---- counters ------------------------------------------------------------------------------

/// What one end of a channel has counted so far. Times are in nanoseconds.
struct MetricsReport {
  bool opened = false;         ///< The end exists (or existed).
  bool connected = false;      ///< It has met its peer.
  bool ended = false;          ///< A stage's end: regularly at its end.
  bool broken = false;         ///< A stage's end: it has seen its peer leave before that.
  std::uint64_t messages = 0;  ///< Published, or received.
  std::uint64_t bytes = 0;     ///< Payload of those messages.
  std::array<std::uint64_t, kCopyEngines> copies{};        ///< Payload copies, by CopyEngine.
  std::array<std::uint64_t, kCopyEngines> copied_bytes{};  ///< The bytes of those copies.
  std::uint64_t copy_ns = 0;  ///< Time spent copying before hand-off (user-space copies).
  std::uint64_t cpu_ns = 0;   ///< CPU time inside this end's calls, waiting included.
  std::uint64_t wait_ns = 0;  ///< Time blocked: no credit, or nothing to receive.
  /// Receiving end: from the later of "published" and "asked for" until the message is in hand,
  /// whole: the median. A message that was timed counts for those around it that were not.
  std::uint64_t handoff_p50_ns = 0;
  std::uint64_t handoff_p99_ns = 0;    ///< The 99th percentile of those times.
  std::uint64_t handoff_p999_ns = 0;   ///< The 99.9th percentile.
  std::uint64_t handoff_total_ns = 0;  ///< Their sum.
  /// Receiving end: time since it last took a message (or asked for it, if small); 0 if it took
  /// none.
  std::uint64_t idle_ns = 0;
  /// A stage's end: when it was given up before its regular end, on this host's monotonic clock; 0:
  /// it was not, or its process ended without a word.
  std::uint64_t left_ns = 0;
};

class Meter;  // the writing side; private

/// A page of counters that one end writes and others may read, while that end lives or after.
class GANTRY_API Metrics {
 public:
  /// Makes a page whose writer will be another process, which inherits descriptor().
  [[nodiscard]] static Result<Metrics> create();
  /// Opens a page that another process made. Takes ownership of `descriptor`, also on failure.
  [[nodiscard]] static Result<Metrics> adopt(int descriptor, bool writable);

  Metrics() noexcept;
  Metrics(Metrics&&) noexcept;
  Metrics& operator=(Metrics&&) noexcept;
  ~Metrics();

  /// The page that others map to read what this end counts.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] MetricsReport report() const;  ///< A consistent-enough snapshot, at any time.
  [[nodiscard]] Meter* meter() const noexcept { return meter_; }  ///< For the end that counts.

 private:
  friend class MetricsMaker;
  Meter* meter_ = nullptr;
  int descriptor_ = -1;
};

// ---- the sending end -----------------------------------------------------------------------

class FarSides;  // gives ends their far side; private

namespace detail {
/// What stands behind an end whose channel is on another host. Private.
class FarSide {
 public:
  FarSide() = default;
  FarSide(const FarSide&) = delete;
  FarSide& operator=(const FarSide&) = delete;
  virtual ~FarSide() = default;
  /// NAME@HOST:PORT.
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
  /// The path that its payload takes, and why.
  [[nodiscard]] virtual std::string path() const = 0;
  /// What became of the channel there, in place of an error that only says that this process's own
  /// relay is gone.
  [[nodiscard]] virtual Error reason(Error error) const = 0;
  /// Connects again, so that the end can be opened anew.
  [[nodiscard]] virtual Result<void> reconnect(Deadline deadline) = 0;
  /// Waits until the end of the stream was received there.
  [[nodiscard]] virtual Result<void> finish(Deadline deadline) = 0;
  /// Waits for a message in place of the relay's thread, unless `is_there`. True: one has come, or
  /// something like it. False: wait as for any other.
  [[nodiscard]] virtual bool receive(Deadline deadline, const std::function<bool()>& is_there) = 0;
  /// A message of `bytes` was published, and may be sent now.
  virtual void has_sent(Bytes bytes) noexcept = 0;
};

/// A temporary that owns the bytes which it would give as a payload.
template <class Given>
concept OwningTemporary =
    !std::is_lvalue_reference_v<Given> && std::is_convertible_v<Given, ConstByteSpan> &&
    !std::ranges::enable_borrowed_range<std::remove_cvref_t<Given>>;
}  // namespace detail

/// The sending end. Used by one thread at a time. Dropping it without close() tells the consumers
/// that the stream broke off: they get what was published, then `peer_gone`.
///
/// In a child of fork() the copy of an end, sending or receiving, belongs to the parent: every call
/// on it fails with `invalid_argument`, and dropping it does nothing. The child opens its own ends.
///
/// On an end that was moved from, whatever its class, every call that returns a Result fails with
/// `invalid_argument`; other calls return what is empty, and do nothing. Only pool() must not be
/// called on it.
class GANTRY_API Producer {
 public:
  /// Takes the name and listens; consumers may come at any later time. Errors: `already_exists`
  /// when a live process has the name, `invalid_argument` for names and options (also for `access`
  /// that lists others and a mode of socket or folder that keeps them out).
  [[nodiscard]] static Result<Producer> open(std::string_view name, const ProducerOptions& options,
                                             std::shared_ptr<Engine> engine);
  /// Connects to the inbox (gantry/channel/inbox.hpp) of that name and waits until `deadline` for
  /// it to appear. The result behaves as after open(). When the inbox is gone, sending fails with
  /// `peer_gone`; wait_for_consumer() looks for its successor, which then gets what the old one had
  /// not taken. Ignores ProducerOptions::consumers. Errors: `timed_out`, `busy` when the inbox is
  /// full, `permission_denied`, `invalid_argument` when the name belongs to a producer.
  [[nodiscard]] static Result<Producer> connect(std::string_view name,
                                                const ProducerOptions& options,
                                                std::shared_ptr<Engine> engine,
                                                Deadline deadline = Deadline::never());
  Producer(Producer&&) noexcept;
  Producer& operator=(Producer&&) noexcept;
  ~Producer();

  /// Copies `payload` into shared memory and publishes it by SendOptions::mode; `payload` is the
  /// caller's again on return. Waits for a credit. Messages sent before any consumer has joined
  /// wait for the first; after the last has gone nothing is sent until there is another. Errors:
  /// `timed_out`, which says what was waited for; `peer_gone` (the last consumer left; the message
  /// was not sent, even if another has joined since), or `system` or `out_of_memory` if it left for
  /// want of descriptors or memory; `interrupted`, `too_large`, `out_of_memory`; `busy` when loans
  /// of this producer hold all credits, and `out_of_memory` when they leave no room, both at once,
  /// since only the caller can end that; `invalid_argument` for a payload at nullptr, or one above
  /// 64 bytes that cannot be read.
  [[nodiscard]] Result<void> send(ConstByteSpan payload, const SendOptions& options = {});
  [[nodiscard]] Result<void> send(ConstByteSpan payload, Deadline deadline) {
    return send(payload, SendOptions{.deadline = deadline});
  }
  /// Sends several segments as one message; see Draft. An empty draft sends one empty segment.
  [[nodiscard]] Result<void> send(Draft draft, const SendOptions& options = {});
  /// Sends a block of pool() without a copy. If you keep another handle to it (Block::share()), do
  /// not write to it until every reader has released the message. The block is gone, also on
  /// failure. Errors: as above, and `invalid_argument` for an empty block, one of another pool, or
  /// one that a container has as well: see Draft::move().
  [[nodiscard]] Result<void> send(GANTRY_TAKES(unconsumed) Block block,
                                  const SendOptions& options = {});

  /// Sends each payload as a message of its own, with the same options; those of up to 64 B take
  /// one lock and at most one wake-up together. Returns how many were sent, from the first on:
  /// fewer than all only if something, the deadline for instance, stopped it half-way, which the
  /// next call will say. Errors: as send(), if none was sent.
  [[nodiscard]] Result<std::size_t> send_batch(std::span<const ConstByteSpan> payloads,
                                               const SendOptions& options = {});

  /// As send(), but waits for nothing. What is quicker copied than handed over is sent within the
  /// call, if it need not wait: payloads of up to 64 KiB, or 1 MiB in a process with fewer than
  /// three CPUs; all that follows what was handed over is handed over, too. So wait for the ticket
  /// before a payload that is to be copied changes, whatever its size.
  /// Messages are published in the order of the calls, whichever way they are sent. Errors: `busy`
  /// when kMaxUnsent are waiting; others are the outcome of the ticket.
  [[nodiscard]] Result<Ticket> send_async(ConstByteSpan payload, const SendOptions& options = {});
  [[nodiscard]] Result<Ticket> send_async(Draft draft, const SendOptions& options = {});
  template <detail::OwningTemporary Gone>
  [[nodiscard]] Result<Ticket> send_async(Gone&&, const SendOptions& = {}) {
    static_assert(!detail::OwningTemporary<Gone>,
                  "send_async() reads the payload after it has returned: pass memory that lives "
                  "until the ticket ends, not a temporary");
    return tl::unexpected(Error{});
  }
  static constexpr std::size_t kMaxUnsent = 64;  ///< Sends that may be waiting at a time.

  /// `done`: the buffer is the caller's again and the message is with its readers. Any thread.
  [[nodiscard]] Outcome outcome(Ticket ticket) const noexcept;
  /// Waits until the ticket ends and returns the error of the send. Errors besides: `timed_out`.
  [[nodiscard]] Result<void> wait(Ticket ticket, Deadline deadline = Deadline::never());
  /// A descriptor for poll() or epoll. It is readable when a ticket has ended since note_woken();
  /// then ask for the outcome of every awaited ticket. Errors: `invalid_argument` before the first
  /// send_async().
  [[nodiscard]] Result<int> sent_descriptor();
  /// Makes sent_descriptor() unreadable until the next ticket ends.
  void note_woken() noexcept;

  /// Lends memory for a message of `size` bytes (at least 1). Waits for a credit, but not for one
  /// that only a loan of this producer can give back. Errors: as send().
  [[nodiscard]] Result<Loan> loan(Bytes size, Deadline deadline = Deadline::never());
  /// Publishes a loan of this producer. Never waits for a credit. The loan is gone, also on
  /// failure.
  [[nodiscard]] Result<void> publish(GANTRY_TAKES(unconsumed) Loan loan,
                                     const SendOptions& options = {});

  /// Publishes a message whose bytes are still to come: its readers get it at once, and its bytes
  /// as EarlyMessage::land() tells. Its parts are blocks of pool(). The message is the producer's
  /// only one until it has landed or was given up: other sends and close() fail with `busy`
  /// meanwhile; only loan() goes on. Errors: as send(), and `invalid_argument` for parts that are
  /// no blocks.
  [[nodiscard]] Result<EarlyMessage> send_early(Draft draft, const SendOptions& options = {});

  /// The pool of this channel's payload: its blocks can be sent without a copy. After the first
  /// call the channel keeps no block for its next small message, so the whole budget is the
  /// caller's.
  [[nodiscard]] Pool pool() const;

  /// Waits until `count` consumers have joined.
  [[nodiscard]] Result<void> wait_for_consumer(Deadline deadline = Deadline::never(),
                                               unsigned count = 1);

  /// Ends the stream, then waits until every consumer has received all of it. Waits for a first
  /// consumer if none has joined, also when nothing was sent: the end of the stream is told to it,
  /// which would else wait for a producer. The stream counts as ended also after an error: what
  /// send_async() took still goes, then the end.
  [[nodiscard]] Result<void> close(Deadline deadline = Deadline::never());

  /// What this end has counted since it was opened.
  [[nodiscard]] MetricsReport metrics() const;

  /// Says how and why a payload of that size would be sent, and how the channel stands: its
  /// readers, who holds what, who holds whom up. Any thread; takes microseconds.
  [[nodiscard]] ChannelExplanation explain(Bytes payload = Bytes{1} << 20) const;

  class Impl;

 private:
  friend class FarSides;
  explicit Producer(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
  std::shared_ptr<detail::FarSide> far_side_;  // null: the channel is this host's
};

// ---- the receiving end ---------------------------------------------------------------------

/// A message that may still be landing. It can be taken chunk by chunk, or whole at the end.
/// Move-only; dropping it discards the rest. Used by the thread of its consumer. If the consumer
/// goes first, nothing more lands, and calls on a streamed message fail with `closed`. An empty one
/// has 0 bytes, and its calls fail with `invalid_argument`.
class GANTRY_API Incoming {
 public:
  Incoming() noexcept;
  Incoming(Incoming&&) noexcept;
  Incoming& operator=(Incoming&&) noexcept;
  ~Incoming();

  /// As Message::info(); complete from the first byte on.
  [[nodiscard]] const MessageInfo& info() const noexcept;
  [[nodiscard]] Bytes size() const noexcept;    ///< Size of the whole payload.
  [[nodiscard]] Bytes landed() const noexcept;  ///< Bytes that have landed, from the front.
  /// True with SendMode::streamed: chunks go by and do not stay.
  [[nodiscard]] bool is_streamed() const noexcept;

  /// Returns what has landed behind the last chunk, and waits until there is something; empty at
  /// the end. A chunk of a streamed message is valid until the next call. Errors: `timed_out`,
  /// `interrupted`, `peer_gone`, `aborted` (the sender gave the message up half-way); after the
  /// last two nothing more comes.
  [[nodiscard]] Result<ConstByteSpan> next(Deadline deadline = Deadline::never());
  /// Waits until the first `bytes` of the payload have landed and returns them. Of a streamed one
  /// they are copied, as by whole(). Errors: as next(); `invalid_argument` if some has passed.
  [[nodiscard]] Result<ConstByteSpan> wait_for(Bytes bytes, Deadline deadline = Deadline::never());
  /// Copies the rest behind the last chunk as it lands and returns its size. After `timed_out` or
  /// `interrupted` call again with the same buffer; the copy goes on where it stopped. Errors: as
  /// next(); `invalid_argument` when the rest does not fit, or when the buffer is a different one
  /// and chunks of a streamed message are in the first; nothing is taken then.
  [[nodiscard]] Result<Bytes> into(ByteSpan destination, Deadline deadline = Deadline::never());
  /// Converts the whole payload as it lands, by a plan whose source it is, and returns the plan's
  /// destination_bytes(). A plan that permutes waits for all of it first; of a streamed message
  /// that takes private memory (ReceiveLimits::gathered_bytes). Call again with the same buffer and
  /// plan after `timed_out` or `interrupted`. Errors: as next(); `invalid_argument` when the
  /// payload is not the plan's source (its tensor, if it has one; its bytes), the buffer is too
  /// small, or some of a streamed message was taken otherwise.
  [[nodiscard]] Result<Bytes> into(ByteSpan destination, const ReshapePlan& plan,
                                   Deadline deadline = Deadline::never());
  /// How its first segment is to be read, if the sender said so.
  [[nodiscard]] std::optional<Tensor> tensor() const noexcept;
  /// Returns all of it as a message, once. A streamed one is copied and must not be partly read.
  [[nodiscard]] Result<Message> whole(Deadline deadline = Deadline::never());

  class Impl;
  explicit Incoming(std::unique_ptr<Impl> impl) noexcept;

 private:
  std::unique_ptr<Impl> impl_;
};

/// The receiving end. Used by one thread at a time; any thread may release messages.
class GANTRY_API Consumer {
 public:
  /// Joins the channel and waits until `deadline` for its producer to appear. One that has appeared
  /// is given 200 ms to answer, also behind the deadline: to leave half-way would look to it as if
  /// its consumer had come and gone. Errors: `timed_out`,
  /// `already_exists` when the channel has all its consumers, `busy` when former consumers of this
  /// user still hold too many of its messages, `permission_denied`, `peer_misbehaved`, `peer_gone`
  /// when producers end as soon as they are found.
  [[nodiscard]] static Result<Consumer> open(std::string_view name, const ConsumerOptions& options,
                                             Deadline deadline = Deadline::never());
  Consumer(Consumer&&) noexcept;
  Consumer& operator=(Consumer&&) noexcept;
  ~Consumer();

  /// Returns the next message, whole. Skips messages that their sender gave up half-way. Errors:
  /// `closed` at the regular end, `peer_gone`, `timed_out`, `interrupted`, `peer_misbehaved`;
  /// `invalid_argument` while a streamed message is half-way in a buffer of receive_into().
  [[nodiscard]] Result<Message> receive(Deadline deadline = Deadline::never());
  /// Drops what is in `into`, waits for one message, then takes those that are there whole, as many
  /// as `into` has places for. Returns how many. Errors: as receive(), and `invalid_argument` for
  /// no places; what goes wrong behind the first message the next call says.
  [[nodiscard]] Result<std::size_t> receive_batch(std::span<Message> into,
                                                  Deadline deadline = Deadline::never());
  /// Returns the next message as soon as it is visible, from its first byte. Errors: as above, and
  /// `invalid_argument` while a streamed message is half-way in a buffer of receive_into().
  [[nodiscard]] Result<Incoming> receive_early(Deadline deadline = Deadline::never());
  /// Copies the next message chunk by chunk as it lands. A message that does not fit stays the next
  /// one; the error is `invalid_argument` and names its size. After `timed_out` as
  /// Incoming::into().
  struct Copied {
    Bytes bytes = 0;   ///< Size of the payload.
    MessageInfo info;  ///< What that message says of itself.
  };
  /// Returns how much that was, and of which message.
  [[nodiscard]] Result<Copied> receive_into(ByteSpan destination,
                                            Deadline deadline = Deadline::never());

  /// The same by a plan whose source is the payload: see Incoming::into(). `bytes` is the size of
  /// what was made.
  [[nodiscard]] Result<Copied> receive_into(ByteSpan destination, const ReshapePlan& plan,
                                            Deadline deadline = Deadline::never());

  /// Returns the next message of any of `consumers` and the index of its consumer. Skips ends that
  /// are `closed`; fails with `closed` when all are.
  struct Any {
    std::size_t index;  ///< Within `consumers`.
    Message message;    ///< The next one of that end, whole.
  };
  /// Errors besides: those of receive().
  [[nodiscard]] static Result<Any> receive_any(std::span<Consumer> consumers,
                                               Deadline deadline = Deadline::never());

  /// After `peer_gone`: joins the next producer of the name. Messages still held stay valid.
  [[nodiscard]] Result<void> rejoin(Deadline deadline = Deadline::never());

  /// A descriptor for poll() or epoll; readable when receive() may have an answer. It is certain to
  /// become readable only after a receive with a passed deadline said `timed_out`. After such a
  /// call on a landing message (Incoming) it also becomes readable when more of that has landed.
  [[nodiscard]] Result<int> event_descriptor();

  /// What this end has counted since it was opened.
  [[nodiscard]] MetricsReport metrics() const;

  /// Says how this end stands: what waits for it, what it holds and since when, what its producer
  /// does.
  [[nodiscard]] ConsumerExplanation explain() const;

  class Impl;

 private:
  friend class FarSides;
  explicit Consumer(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
  std::shared_ptr<detail::FarSide> far_side_;  // null: the channel is this host's
};

/// Folders below the channel directory that belong to a running pipeline begin with this.
inline constexpr std::string_view kRunPrefix = "run-";
inline constexpr const char* kRunFile = ".runner";  ///< In such a folder: the pipeline's name.
/// Those with this process's ends of channels of other hosts begin with this.
inline constexpr std::string_view kLinkPrefix = "link-";

}  // namespace gantry
