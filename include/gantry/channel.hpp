#pragma once  // gantry/channel.hpp: a session between processes: producers, consumers, credits,
              // counters.

#include <array>
#include <gantry/channel/message.hpp>
#include <gantry/channel/options.hpp>
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

/// channel_directory() where others are to find channels, too, as `access` says: it may belong to
/// root or to a listed user, and others may pass through it (--x), no more: who can read it can
/// hold its lock.
[[nodiscard]] GANTRY_API Result<std::string> channel_directory(std::string_view given,
                                                               const Access& access);

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

// ---- the sending end -----------------------------------------------------------------------

/// The sending end. One thread at a time. In a child of fork() every call on the copy of an end,
/// sending or receiving, is `invalid_argument`, and dropping the copy does nothing: it belongs to
/// the parent, and the child opens its own. Dropping it without close() tells the consumers that
/// the stream broke off: they get what was published, then `peer_gone`.
class GANTRY_API Producer {
 public:
  /// Takes the name and listens; consumers may come at any time later. Errors:
  /// `already_exists` when a live producer has the name, `invalid_argument` for names and options.
  [[nodiscard]] static Result<Producer> open(std::string_view name, const ProducerOptions& options,
                                             std::shared_ptr<Engine> engine);
  /// Comes to an inbox (gantry/inbox.hpp), waiting for it to appear until `deadline`: the name is
  /// the inbox's, all else is as after open(). When the inbox is gone, sending says `peer_gone`;
  /// wait_for_consumer() looks for its successor, which then gets what the old one had not taken.
  /// Errors: `timed_out`, `busy` when it has all the producers it takes, `permission_denied`,
  /// `invalid_argument` when the name is a producer's. ProducerOptions::consumers is not asked for.
  [[nodiscard]] static Result<Producer> connect(std::string_view name,
                                                const ProducerOptions& options,
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
  [[nodiscard]] static Result<Consumer> open(std::string_view name, const ConsumerOptions& options,
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
