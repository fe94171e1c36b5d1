#pragma once  // gantry/channel.hpp: a session between two processes: messages, credits, counters.

#include <array>
#include <cstring>
#include <gantry/engine.hpp>
#include <gantry/memory.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gantry {

// ---- where channels live -------------------------------------------------------------------

/// The folder in which channels are found: `given` if not empty, else $GANTRY_DIR, else
/// $XDG_RUNTIME_DIR/gantry, else gantry-UID under the temporary directory. Whether it is there and
/// fit is not asked.
[[nodiscard]] std::string channel_directory_path(std::string_view given = {});

/// That folder, made (mode 0700) when missing. Errors: `permission_denied` when others can use it
/// in any way, or it is not ours.
[[nodiscard]] Result<std::string> channel_directory(std::string_view given = {});

/// Letters, digits, '.', '_' and '-', at most 64, not beginning with '.'.
[[nodiscard]] Result<void> check_channel_name(std::string_view name);

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
  std::uint64_t handoff_total_ns = 0;
};

class Meter;  // the writing side; private

/// A page of counters that one end writes and others may read while it lives or after.
class Metrics {
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

// ---- what travels --------------------------------------------------------------------------

namespace detail {
/// Who takes a loan or a message back. Implemented by each transport.
class Keeper {
 public:
  virtual ~Keeper() = default;
  virtual void give_back(std::uint64_t token) noexcept = 0;
};
}  // namespace detail

/// Empty memory to write a message in, already where the reader will see it. Move-only; dropped
/// unpublished it goes back and nothing is sent.
class Loan {
 public:
  Loan() noexcept = default;
  Loan(std::shared_ptr<detail::Keeper> keeper, std::uint64_t token, ByteSpan bytes) noexcept
      : keeper_(std::move(keeper)), token_(token), bytes_(bytes) {}
  Loan(Loan&& other) noexcept { *this = std::move(other); }
  Loan& operator=(Loan&& other) noexcept;
  ~Loan() { reset(); }

  [[nodiscard]] ByteSpan bytes() const noexcept { return bytes_; }
  /// Publish only the first `size` bytes. `size` above bytes().size() is ignored.
  void shrink(Bytes size) noexcept {
    if (size < bytes_.size()) bytes_ = bytes_.first(size);
  }
  [[nodiscard]] explicit operator bool() const noexcept { return keeper_ != nullptr; }

  // For transports:
  [[nodiscard]] const detail::Keeper* keeper() const noexcept { return keeper_.get(); }
  [[nodiscard]] std::uint64_t token() const noexcept { return token_; }
  void forget() noexcept;  ///< The transport took it over; nothing is given back.

 private:
  void reset() noexcept;
  std::shared_ptr<detail::Keeper> keeper_;
  std::uint64_t token_ = 0;
  ByteSpan bytes_;
};

/// A received message: a read-only view that holds its slot until dropped or released. Move-only.
class Message {
 public:
  static constexpr Bytes kInlineBytes = 64;  ///< Payloads up to this travel in the ring itself.

  Message() noexcept = default;
  Message(std::shared_ptr<detail::Keeper> keeper, std::uint64_t token, ConstByteSpan bytes,
          std::uint64_t sequence) noexcept
      : keeper_(std::move(keeper)), token_(token), sequence_(sequence), view_(bytes) {}
  /// A private copy of at most kInlineBytes (more is cut off); holds nothing.
  Message(ConstByteSpan small, std::uint64_t sequence) noexcept
      : sequence_(sequence), is_small_(true) {
    view_ = ConstByteSpan(small_.data(), small.size() < kInlineBytes ? small.size() : kInlineBytes);
    if (!small.empty()) std::memcpy(small_.data(), small.data(), view_.size());
  }
  Message(Message&& other) noexcept { *this = std::move(other); }
  Message& operator=(Message&& other) noexcept;
  ~Message() { release(); }

  /// The payload. Valid until release(); a view into memory of the sender, which a hostile one
  /// can change at any time: copy what you check.
  [[nodiscard]] ConstByteSpan bytes() const noexcept {
    return is_small_ ? ConstByteSpan(small_.data(), view_.size()) : view_;
  }
  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }  ///< From 1.
  void release() noexcept;  ///< Gives the slot back to the sender now.

 private:
  std::shared_ptr<detail::Keeper> keeper_;
  std::uint64_t token_ = 0;
  std::uint64_t sequence_ = 0;
  ConstByteSpan view_;
  bool is_small_ = false;
  std::array<std::byte, kInlineBytes> small_;  // NOLINT: filled when is_small_
};

// ---- the two ends --------------------------------------------------------------------------

struct ChannelOptions {
  std::string directory;  ///< Empty: channel_directory()'s rule.
  static constexpr unsigned kMaxSlots = 64;
  /// Credits: messages that may be published and not yet released. 1 to kMaxSlots. Producer only.
  unsigned slots = 8;
  /// Payload memory. Producer only. `memory` empty: a pool of the channel's own, made by `pool`.
  /// A consumer maps whole slabs of it, read-only: share no pool between channels whose consumers
  /// must not see each other's messages.
  std::optional<Pool> memory{};
  PoolOptions pool{};
  /// How long a waiting end polls before it sleeps. Zero: sleep at once.
  std::chrono::nanoseconds spin{50'000};
  /// When this descriptor becomes readable, waiting calls return `interrupted`. Not owned.
  int interrupt_descriptor = -1;
  /// Where to count; -1: a page of the end's own. Owned by the end from then on.
  int metrics_descriptor = -1;
};

/// The sending end. One thread at a time. Dropping it without close() tells the consumer that the
/// stream broke off: it gets what was published, then `peer_gone`.
class Producer {
 public:
  /// Takes the name and listens; a consumer may come at any time later. Errors:
  /// `already_exists` when a live producer has the name, `invalid_argument` for names and options.
  [[nodiscard]] static Result<Producer> open(std::string_view name, const ChannelOptions& options,
                                             std::shared_ptr<Engine> engine);
  Producer(Producer&&) noexcept;
  Producer& operator=(Producer&&) noexcept;
  ~Producer();

  /// Copies `payload` into shared memory and publishes it. Waits for a credit until `deadline`.
  /// Errors: `timed_out`, `peer_gone`, `interrupted`, `too_large`, `out_of_memory`.
  [[nodiscard]] Result<void> send(ConstByteSpan payload, Deadline deadline = Deadline::never());

  /// Memory for a message of `size` bytes (at least 1). Waits for a credit; errors as send().
  [[nodiscard]] Result<Loan> loan(Bytes size, Deadline deadline = Deadline::never());

  /// Hands a loan of this producer over. Never waits.
  [[nodiscard]] Result<void> publish(Loan&& loan);

  /// Hands over a block of pool() without a copy. Waits for a credit. Who keeps another handle to
  /// it (Block::share()) must not write to it until the consumer gave it back. Errors: as send(),
  /// and `invalid_argument` for an empty block or one of another pool; the block is gone then, too.
  [[nodiscard]] Result<void> publish(Block block, Deadline deadline = Deadline::never());

  /// Where this channel's payload lies: what is allocated here can be published as it is.
  [[nodiscard]] Pool pool() const;

  /// Waits until a consumer has joined.
  [[nodiscard]] Result<void> wait_for_consumer(Deadline deadline = Deadline::never());

  /// Ends the stream, then waits until a consumer has received all of it. After an error the
  /// stream still counts as ended.
  [[nodiscard]] Result<void> close(Deadline deadline = Deadline::never());

  [[nodiscard]] MetricsReport metrics() const;

  class Impl;

 private:
  explicit Producer(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
};

/// The receiving end. One thread at a time; messages may be released from any thread.
class Consumer {
 public:
  /// Joins the channel, waiting for its producer to appear until `deadline`. Errors: `timed_out`,
  /// `already_exists` when it has a consumer, `permission_denied`, `peer_misbehaved`.
  [[nodiscard]] static Result<Consumer> open(std::string_view name, const ChannelOptions& options,
                                             Deadline deadline = Deadline::never());
  Consumer(Consumer&&) noexcept;
  Consumer& operator=(Consumer&&) noexcept;
  ~Consumer();

  /// The next message. Errors: `closed` at the regular end, `peer_gone`, `timed_out`,
  /// `interrupted`, `peer_misbehaved`.
  [[nodiscard]] Result<Message> receive(Deadline deadline = Deadline::never());

  /// The next message of any of `consumers`, and whose it is. An end that is `closed` is passed
  /// over; `closed` is returned when all are.
  struct Any {
    std::size_t index;
    Message message;
  };
  [[nodiscard]] static Result<Any> receive_any(std::span<Consumer> consumers,
                                               Deadline deadline = Deadline::never());

  [[nodiscard]] MetricsReport metrics() const;

  class Impl;

 private:
  explicit Consumer(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
};

// ---- looking at channels from outside ------------------------------------------------------

/// What a channel says of itself to `gantry ls`.
struct ChannelStatus {
  std::string name;
  int producer_pid = 0;
  int consumer_pid = 0;     ///< 0: none has joined.
  unsigned slots = 0;       ///< Credits in all.
  unsigned slots_held = 0;  ///< Of these, published and not yet released.
  std::uint64_t slab_bytes = 0;
  std::chrono::nanoseconds age{};
  MetricsReport producer;
  MetricsReport consumer;
};

/// Folders below the channel directory that belong to one running pipeline begin like this.
inline constexpr std::string_view kRunPrefix = "run-";

/// Every live channel below `directory`, those of running pipelines too (as "run-…/name").
/// Removes sockets whose producer is gone. Channels that do not answer within a second are
/// listed with their name alone.
[[nodiscard]] Result<std::vector<ChannelStatus>> list_channels(std::string_view directory);

}  // namespace gantry
