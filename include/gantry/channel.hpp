#pragma once  // gantry/channel.hpp: messages between processes: producers, consumers, counters.

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <gantry/engine.hpp>
#include <gantry/memory.hpp>
#include <gantry/types.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gantry {

// ---- facts about a message -----------------------------------------------------------------

/// Number, tags and times of a message.
struct MessageInfo {
  /// Number in its channel, from 1; a gap means that messages were dropped.
  std::uint64_t sequence = 0;
  std::uint64_t user = 0;        ///< A free word that the sender sets.
  std::uint32_t type = 0;        ///< A free tag that the sender sets.
  std::uint64_t sent_ticks = 0;  ///< Publishing time in ticks of this machine's clock. 0: not
                                 ///< timed; only one in eight small messages is timed.
  /// Number that links a reply to its request; 0: the message is neither.
  std::uint64_t correlation = 0;
  std::uint64_t deadline_ns = 0;  ///< Deadline of a request, monotonic nanoseconds; 0: none.
};

/// A part of a received message: its bytes, and its tensor if the sender gave one.
struct Segment {
  ConstByteSpan bytes;           ///< Read-only memory, valid as long as the message.
  std::optional<Tensor> tensor;  ///< Type and shape of the bytes. Empty: plain bytes.
};
/// Largest number of segments of a message.
inline constexpr std::size_t kMaxSegments = 64;

namespace detail {
struct Inheritance;
/// Where bytes lie in memory that another process can map, and the state that must travel with
/// them.
struct RegionSlice {
  std::shared_ptr<const Region> region;
  Bytes offset = 0;
  std::shared_ptr<const Inheritance> inherited;
};
/// Takes a loan or a message back. Implemented by each kind of end.
class GANTRY_API SlotOwner {
 public:
  virtual ~SlotOwner() = default;
  virtual void give_back(std::uint64_t token) noexcept = 0;
  /// Place of `bytes`, which belong to `token`; empty if they are private to this process.
  [[nodiscard]] virtual std::optional<RegionSlice> where(std::uint64_t token,
                                                         ConstByteSpan bytes) const {
    static_cast<void>(token), static_cast<void>(bytes);
    return std::nullopt;
  }
  /// True if no process can change these bytes any more.
  [[nodiscard]] virtual bool is_immutable(std::uint64_t token, ConstByteSpan bytes) const {
    static_cast<void>(token), static_cast<void>(bytes);
    return false;
  }
  /// See Message::key_for().
  [[nodiscard]] virtual Result<std::optional<DeviceKey>> key_for(std::uint64_t token,
                                                                 ConstByteSpan bytes,
                                                                 const Registrar& registrar) const {
    static_cast<void>(token), static_cast<void>(bytes), static_cast<void>(registrar);
    return std::nullopt;
  }
};
}  // namespace detail

// ---- messages to send ----------------------------------------------------------------------

/// Memory for one message, `bytes()`, already where the reader will see it. Move-only. A loan that
/// is dropped unpublished returns its memory, and nothing is sent. After publishing, bytes() is
/// empty, and clang's -Wconsumed rejects a further use of the loan.
class GANTRY_API GANTRY_CONSUMABLE(unconsumed) Loan {
 public:
  GANTRY_RETURNS(consumed) Loan() noexcept = default;
  GANTRY_RETURNS(unconsumed)
  Loan(std::shared_ptr<detail::SlotOwner> owner, std::uint64_t token, ByteSpan bytes) noexcept
      : owner_(std::move(owner)), token_(token), bytes_(bytes) {}
  Loan(Loan&& other) noexcept;
  Loan& operator=(Loan&& other) noexcept;
  ~Loan() { reset(); }

  GANTRY_ONLY_WHEN(unconsumed) [[nodiscard]] ByteSpan bytes() const noexcept { return bytes_; }
  /// Keeps only the first `size` bytes for publishing. Ignores a `size` above bytes().size().
  GANTRY_ONLY_WHEN(unconsumed) void shrink(Bytes size) noexcept {
    if (size < bytes_.size()) bytes_ = bytes_.first(size);
  }
  [[nodiscard]] explicit operator bool() const noexcept { return owner_ != nullptr; }

  // For implementations of ends:
  [[nodiscard]] const detail::SlotOwner* owner() const noexcept { return owner_.get(); }
  [[nodiscard]] std::uint64_t token() const noexcept { return token_; }
  void forget() noexcept;  ///< Does not give the slot back: the sender has taken the slot over.

 private:
  void reset() noexcept;
  std::shared_ptr<detail::SlotOwner> owner_;
  std::uint64_t token_ = 0;
  ByteSpan bytes_;
};

class Message;

/// A message assembled from parts, at most kMaxSegments; each part is copied, moved or forwarded.
/// Spans must not change until the send that takes the draft has ended. Move-only. Its functions
/// can be chained: out.send(Draft().move(std::move(block)).copy(bytes)).
class GANTRY_API Draft {
 public:
  Draft() noexcept = default;
  Draft(Draft&&) noexcept = default;
  Draft& operator=(Draft&&) noexcept = default;
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft() = default;

  /// One segment of the draft: copied bytes, a block, or a segment of a forwarded message.
  struct Part {
    ConstByteSpan copied;  // bytes to copy; empty if `block` or `forwarded` is set
    Block block;           // set if the part lies in a block
    /// The forwarded message; shared by the parts that are its segments.
    std::shared_ptr<Message> forwarded;
    ConstByteSpan bytes;           // bytes of the part, of any kind
    std::optional<Tensor> tensor;  // type and shape; empty: plain bytes
    bool moved = false;            // the part was made by move()
    bool needs_size = false;       // the block also belongs to a container
    /// Bytes of the block to send, from its front; empty: the whole block.
    std::optional<Bytes> size;
    std::optional<As> as{};  // conversion; empty: as the send or the channel says
  };

  /// Adds bytes that the send copies.
  Draft& copy(ConstByteSpan bytes, std::optional<Tensor> tensor = {}) &;
  /// Adds a block of the channel's pool without a copy. The send refuses a container's block
  /// (Block::is_of_container()), because the block is as large as the container's capacity; use the
  /// overload with `bytes` for it.
  Draft& move(GANTRY_TAKES(unconsumed) Block block, std::optional<Tensor> tensor = {}) &;
  /// Adds only the first `bytes` of the block, without a copy. The rest of the block is not sent.
  Draft& move(GANTRY_TAKES(unconsumed) Block block, Bytes bytes,
              std::optional<Tensor> tensor = {}) &;
  /// Adds all segments of a received message without a copy. The received message is released to
  /// its sender when the last reader has released the new one.
  Draft& forward(Message message) &;
  /// Converts the part that was added last, during its copy. The reader gets the destination's
  /// tensor. Blocks and forwarded messages are not copied, so the send refuses such a part if its
  /// type must change.
  Draft& as(As what) &;

  // The functions above, for a chain that begins with Draft().
  [[nodiscard]] Draft copy(ConstByteSpan bytes, std::optional<Tensor> tensor = {}) && {
    return std::move(copy(bytes, tensor));
  }
  /// Chained form of move().
  [[nodiscard]] Draft move(GANTRY_TAKES(unconsumed) Block block,
                           std::optional<Tensor> tensor = {}) && {
    return std::move(move(std::move(block), tensor));
  }
  /// Chained form of move() for the first `bytes` of the block.
  [[nodiscard]] Draft move(GANTRY_TAKES(unconsumed) Block block, Bytes bytes,
                           std::optional<Tensor> tensor = {}) && {
    return std::move(move(std::move(block), bytes, tensor));
  }
  /// Chained form of forward().
  [[nodiscard]] Draft forward(Message message) &&;
  /// Chained form of as().
  [[nodiscard]] Draft as(As what) && { return std::move(as(std::move(what))); }

  /// The parts added so far, for the end that sends them.
  [[nodiscard]] std::vector<Part>& parts() noexcept { return parts_; }
  [[nodiscard]] const std::vector<Part>& parts() const noexcept { return parts_; }

 private:
  std::vector<Part> parts_;
};

// ---- received messages ---------------------------------------------------------------------

/// A complete received message: a read-only view that holds its slot (a credit with memory) until
/// it is dropped or released. Move-only.
class GANTRY_API Message {
 public:
  /// Payloads of at most this size travel in the ring itself (memory with a record per message).
  static constexpr Bytes kInlineBytes = 64;

  Message() noexcept = default;
  Message(std::shared_ptr<detail::SlotOwner> owner, std::uint64_t token, ConstByteSpan bytes,
          const MessageInfo& info) noexcept
      : owner_(std::move(owner)), token_(token), info_(info), view_(bytes) {}
  /// A private copy of the first kInlineBytes at most; it does not hold a slot.
  Message(ConstByteSpan small, const MessageInfo& info) noexcept : info_(info), is_small_(true) {
    view_ = ConstByteSpan(small_.data(), small.size() < kInlineBytes ? small.size() : kInlineBytes);
    if (!small.empty()) std::memcpy(small_.data(), small.data(), view_.size());
  }
  /// A private copy of the first `bytes` (at most kInlineBytes) at `small`, where kInlineBytes must
  /// be readable. Copies `near` bytes, and all kInlineBytes if `bytes` is larger than `near`:
  /// copies of a constant size take a few instructions.
  template <std::size_t near>
  Message(std::integral_constant<std::size_t, near>, const std::byte* small, Bytes bytes,
          const MessageInfo& info) noexcept
      : info_(info), is_small_(true) {
    view_ = ConstByteSpan(small_.data(), bytes);
    std::memcpy(small_.data(), small, near);
    if (bytes > near) std::memcpy(small_.data() + near, small + near, kInlineBytes - near);
  }
  Message(Message&& other) noexcept { *this = std::move(other); }
  Message& operator=(Message&& other) noexcept;
  ~Message() { release(); }

  /// The payload, or its first segment. Valid until release(). A large message lies in the sender's
  /// memory, which a hostile sender can change at any time: unless is_immutable(), copy the bytes
  /// before checking them. Deleted for temporaries, whose bytes would be gone at the end of the
  /// line. Compilers do not see this in receive()->bytes(), so give the result a name.
  [[nodiscard]] ConstByteSpan bytes() const& noexcept {
    return is_small_ ? ConstByteSpan(small_.data(), view_.size()) : view_;
  }
  ConstByteSpan bytes() const&& = delete;  // name the message first: it must outlive its bytes
  /// Number of segments in the payload.
  [[nodiscard]] std::size_t segments() const noexcept {
    return segments_ == nullptr ? 1 : segments_->size();
  }
  /// One segment; `index` must be below segments().
  [[nodiscard]] Segment segment(std::size_t index) const& {
    return segments_ == nullptr ? Segment{bytes(), {}} : (*segments_)[index];
  }
  /// Name the message first: it must outlive its bytes.
  Segment segment(std::size_t index) const&& = delete;
  /// True if no process can change the bytes any more: they are a private copy, or were sent with
  /// SendMode::immutable. Asks the kernel, not the sender.
  [[nodiscard]] bool is_immutable() const;
  /// The key by which an operation of `registrar`'s device names segment(`index`). Needs no
  /// look-up, since the whole slab is registered. Empty for a private copy (streamed, or at most
  /// PayloadOptions::cell_bytes) and for an empty segment; use the address instead, with any
  /// registrar. The device must be done before the message is released. `index` must be below
  /// segments(). Any thread. Errors, for bytes in a slab: the registrar's error when it refused the
  /// slab; the address can then still be used; `invalid_argument` if ConsumerOptions::registrars
  /// does not name the registrar, and in a fork()ed child.
  [[nodiscard]] Result<std::optional<DeviceKey>> key_for(const Registrar& registrar,
                                                         std::size_t index = 0) const;
  /// Number, tag and other facts that the sender attached.
  [[nodiscard]] const MessageInfo& info() const noexcept { return info_; }
  /// Number in its channel, from 1; a gap means that messages were dropped.
  [[nodiscard]] std::uint64_t sequence() const noexcept { return info_.sequence; }
  void release() noexcept;  ///< Returns the slot to the sender now.

  // For implementations of ends:
  void set_segments(std::unique_ptr<std::vector<Segment>> segments) noexcept {
    segments_ = std::move(segments);
    view_ = segments_->empty() ? ConstByteSpan() : segments_->front().bytes;
  }
  /// Owner of the slot; null for a private copy.
  [[nodiscard]] detail::SlotOwner* owner() const noexcept { return owner_.get(); }
  /// Number by which the owner knows the slot.
  [[nodiscard]] std::uint64_t token() const noexcept { return token_; }
  /// Never gives the slot back, since another process may still read the slot. The bytes stay valid
  /// until release(), for all holders of this message.
  void abandon() noexcept { gives_back_ = false; }

 private:
  std::shared_ptr<detail::SlotOwner> owner_;
  std::uint64_t token_ = 0;
  MessageInfo info_;
  ConstByteSpan view_;
  std::unique_ptr<std::vector<Segment>> segments_;  // null: one segment, without a tensor
  bool is_small_ = false;
  bool gives_back_ = true;                     // false: abandoned
  std::array<std::byte, kInlineBytes> small_;  // NOLINT: filled when is_small_
};

// Options of an end and of a message: first their values, then the structs.

// ---- admission and modes -------------------------------------------------------------------

/// A thread that serves the sockets of many ends, until the last one is gone: EndOptions::acceptor.
class Acceptor;
/// Starts an acceptor thread. Errors: `system`.
[[nodiscard]] GANTRY_API Result<std::shared_ptr<Acceptor>> make_acceptor();

/// When a message becomes visible to its readers, and how its payload is copied. In send() the
/// caller copies; send_async() does not wait, and a thread of the producer copies the payloads that
/// are queued.
enum class SendMode : std::uint8_t {
  automatic,  ///< The mode of PayloadOptions::mode; if that is also `automatic`, chosen by size.
  whole,      ///< The payload is copied, then published.
  /// The message is published, then copied: readers take chunks as they land. The whole payload
  /// ends up in a block.
  pipelined,
  /// The message is published, then copied through a window: a ring of memory that stays in the
  /// cache. Readers take chunks as they land and must release each one before the next can come.
  streamed,
  /// As `whole`, in separate memory that the kernel then seals: no process can change it any more,
  /// not even the sender. Costs one descriptor and one mapping per message.
  immutable,
};
[[nodiscard]] GANTRY_API std::string_view to_string(SendMode mode) noexcept;

/// How the producer treats a consumer that has reached its limit of unreleased messages. Gaps in
/// the message numbers show the dropped messages. While any consumer has a policy other than
/// `block`, `streamed` becomes `pipelined`, since a window would have to wait for that consumer.
enum class SlowConsumer : std::uint8_t {
  block,        ///< The producer waits for the consumer. The default.
  drop_newest,  ///< The consumer does not get the new message; other consumers do.
  disconnect,   ///< The consumer is cut off. It may take messages that have landed, then gets
                ///< `peer_gone`.
  /// The consumer loses the oldest message that it has not taken, in favour of the new one. It
  /// keeps all messages that it has taken. If it holds fewer messages than its depth, it also gets
  /// the newest message.
  drop_oldest,
};
[[nodiscard]] GANTRY_API std::string_view to_string(SlowConsumer policy) noexcept;

/// Processes that may be at the other end, besides those of the same user and of root.
struct Access {
  /// Permissions of the socket file, by which the kernel admits connections; the end that owns the
  /// name sets them. With group bits, the file belongs to the first of `groups`. The listed users
  /// and groups need a write bit (if `groups` is empty: the bit for others) and a folder that lets
  /// them pass; otherwise opening fails with `invalid_argument`. With 0666 the lists alone decide.
  /// See docs/tasks/other-users.md.
  unsigned socket_mode = 0600;
  std::vector<unsigned> users{};   ///< User numbers. A consumer also accepts the users' producers.
  std::vector<unsigned> groups{};  ///< Group numbers; each group of a process counts.
  std::string token{};             ///< Secret, equal at both ends. At most 64 bytes.
};

/// Upper limits of a sender's cost to its receiver; 0: a default, by the limits of the receiving
/// process. The receiver disconnects a sender that needs more; the error names the limit to raise.
struct ReceiveLimits {
  /// Number of slabs of the sender's pool that are mapped at a time; each costs one descriptor and
  /// one mapping. Default for a consumer: half the limit of open files; for an inbox: the part of
  /// that limit that the other descriptors of the process and of its senders leave free.
  std::uint64_t slabs = 0;
  /// Address space for these slabs. Default: half the limit (ulimit -v), or half of a process's
  /// address space.
  Bytes mapped_bytes = 0;
  /// Private memory for streamed messages that are received whole, until they are released.
  /// Receiving chunk by chunk does not use it. Default: half of the machine's memory, or of the
  /// control group's limit.
  Bytes gathered_bytes = 0;
  /// Bytes of these slabs that are registered with ConsumerOptions::registrars. Registering a slab
  /// makes all its pages present, even pages that the sender never wrote. A slab beyond the limit
  /// is received but not registered. Default: as gathered_bytes.
  Bytes registered_bytes = 0;
};

// ---- options of an end ---------------------------------------------------------------------

/// How the payload of another host's channel travels. Any value other than `automatic` is
/// mandatory: open() fails with `unsupported` if the path is not available, and a session whose
/// connection breaks continues over that path alone.
enum class RemotePath : std::uint8_t {
  automatic,  ///< The best path that both ends have: `shared` if possible, otherwise `stream`.
  stream,     ///< Over the connection, received straight into its place.
  fabric,     ///< Read by libfabric over a separate connection, provider "tcp". Needs IPv4.
  shared,     ///< Copied once, from memory that both ends map. Both ends run on one kernel.
};
[[nodiscard]] GANTRY_API std::string_view to_string(RemotePath path) noexcept;

/// Options for an end whose name is NAME@HOST[:PORT] or NAME@unix:/PATH: a channel of another host,
/// or of another namespace of this host, reached through its bridge (gantry/bridge.hpp).
struct RemoteOptions {
  /// Secret of the bridge, 16 to 64 bytes. Empty: the first line of the file that
  /// $GANTRY_TOKEN_FILE names.
  std::string token{};
  /// The bridge counts as gone after this time of silence.
  std::chrono::milliseconds stall_limit{10'000};
  /// Time for which a broken connection is retried; messages in flight are kept.
  std::chrono::milliseconds patience{5'000};
  RemotePath path = RemotePath::automatic;  ///< How payload travels.
};

/// The owner of an end, for people. Each end states its own name: decisions do not depend on it.
struct GANTRY_API EndName {
  /// Largest length of each text; longer texts are cut.
  static constexpr std::size_t kMostBytes = 63;
  std::string host{};     ///< Host name, as its kernel reports it.
  std::string command{};  ///< Program; "python3 score.py" or "gantry put" where the program alone
                          ///< says too little.
  std::string stage{};    ///< Name of the stage of `gantry run`; otherwise empty.
  unsigned replica = 0;   ///< Number of the replica within the stage, from 0.
  /// Number of replicas of the stage; 0: the end does not belong to a stage.
  unsigned replicas = 0;

  /// "score", or "score.1" if the stage has several replicas; the command if there is no stage.
  /// Empty if nothing is known.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool operator==(const EndName&) const = default;
};
/// The name of this process's ends.
[[nodiscard]] GANTRY_API EndName own_end_name();

/// Options of every end: producers, consumers, inboxes, servers and clients.
struct EndOptions {
  /// Folder of the channel names, an absolute path. Empty: by the rule of channel_directory().
  std::string directory{};
  /// Longest time that a waiting end polls before it sleeps; the time drops, down to a 64th, as
  /// long as messages come only after the end of the poll. 0: the end never polls.
  std::chrono::nanoseconds spin{50'000};
  /// Waiting calls return `interrupted` while this descriptor is readable. Not owned.
  int interrupt_descriptor = -1;
  /// The page for counters, made by Metrics::create(); the end takes ownership. -1: the end makes
  /// its own page.
  int metrics_descriptor = -1;
  /// Processes that may join, and that may be joined. For other users, the folder must let them
  /// pass and no more (mode 711).
  Access access{};
  /// The thread that admits peers and notices their exit. A consumer uses it only to notice that
  /// its producer's process has ended. A Runtime shares one among all its ends. Empty: a producer
  /// starts its own; a consumer does not need one.
  std::shared_ptr<Acceptor> acceptor{};
  /// How to reach a channel of another host.
  RemoteOptions remote{};
  /// Whether an end that has waited two seconds for a name reports that it waits, in one line on
  /// standard error; on this host the line lists the existing names. A Runtime adds its own
  /// RuntimeOptions::notices.
  bool notices = false;
  /// Name of the real owner, if this end acts for an end elsewhere. Empty: own_end_name().
  std::optional<EndName> acts_for{};
};

/// How payloads are sent: how many at a time, in which memory, in which mode. Used for a producer,
/// for a client's requests, and for a server's replies to each client.
struct PayloadOptions {
  static constexpr unsigned kMaxSlots = 64;  ///< Upper limit of `slots`.
  /// Credits: unreleased messages (payloads of up to `cell_bytes`: untaken ones). 1 to kMaxSlots.
  unsigned slots = 8;
  /// Credits in bytes: limit of payload in blocks that is published and not yet released. A single
  /// larger message is sent alone. 0: only the pool's budget limits it.
  Bytes bytes_in_flight = 0;
  static constexpr Bytes kMaxCellBytes = 4096;  ///< Upper limit of `cell_bytes`.
  /// Payloads of at most this size lie beside their record, once for all readers, while the channel
  /// has at most four consumers, all with the policy `block`, and no history. They are copied out
  /// on receipt (Consumer::look() reads them in place) and do not hold a slot, so a reader may keep
  /// them without delaying the producer. At most kMaxCellBytes; 0: none.
  /// Payloads of up to 64 B always lie in the record itself.
  Bytes cell_bytes = kMaxCellBytes;
  /// Payload memory. Empty: the channel makes its own pool with `pool`. A consumer maps whole slabs
  /// of it, read-only: do not share a pool between channels whose consumers must not see each
  /// other's messages.
  std::optional<Pool> memory{};
  PoolOptions pool{};  ///< How the channel's own pool is made, if `memory` is empty.
  /// Mode of messages whose SendOptions::mode is `automatic`.
  SendMode mode = SendMode::automatic;
  /// CPUs for the thread behind send_async(), as far as the kernel allows. After a send that thread
  /// polls for up to 100 ms (unless `spin` is zero), since waking it would dominate the cost of the
  /// next send. Empty: the CPUs of the thread that first calls send_async(), which helps little if
  /// that thread is bound to a single CPU.
  std::vector<int> progress_cpus{};
  /// Number of threads that copy a payload of 4 MiB or more in send(), including the caller: 1 or
  /// 2. 0: 2 if the calling thread may use three CPUs or progress_cpus names CPUs for the second
  /// thread; otherwise 1.
  unsigned copy_threads = 0;
  /// Conversion of each tensor, unless its part or its send says otherwise. Bytes without a tensor
  /// are refused unless As::from gives their type. Empty: payloads are sent unchanged.
  std::optional<As> as{};
};

/// Options of a producer. With braces, write the shared options first: `{{}, {.slots = 4}}`.
struct ProducerOptions : EndOptions, PayloadOptions {
  static constexpr unsigned kMaxConsumers = 32;  ///< Upper limit of `consumers`.
  /// Number of consumers that may be joined at a time, 1 to kMaxConsumers. With one, messages that
  /// a dead consumer had not taken wait for its successor; with more, only if it was the last
  /// consumer.
  unsigned consumers = 1;
  /// Number of earlier messages that a joining consumer gets first: the newest that still exist and
  /// fit beside outstanding loans. At most `slots`, and both together at most 64.
  unsigned history = 0;
  /// Whether consumers may join with SlowConsumer::block, and so delay all others. If not, such a
  /// consumer gets `permission_denied`.
  bool consumers_may_block = true;
  /// An eventfd that is signalled whenever a consumer joins or leaves, so that the producer need
  /// not poll for it. Not owned; it must live as long as the producer. -1: none.
  int consumers_event = -1;
};

/// How a receiving end behaves.
struct ConsumerOptions : EndOptions {
  /// The producer's policy when this consumer is slow.
  SlowConsumer when_slow = SlowConsumer::block;
  /// Number of messages that a consumer with a policy other than `block` may hold unreleased, at
  /// most the producer's slots. 0: half of the slots, so that it cannot delay the others. With
  /// `block`, it may hold all slots, whatever its depth.
  unsigned depth = 0;
  /// Limits for its producer. For an inbox: limits for each producer; default: an even share of one
  /// half of InboxOptions::total, and in addition a quarter of the other half.
  ReceiveLimits receive{};
  /// Devices that must know received memory: see Message::key_for(). Each slab of the producer is
  /// registered with each registrar, for reading, from the receipt of the first message in the slab
  /// until the slab is unmapped; explain() reports the results. Registrars are held as long as the
  /// consumer and its messages. At most Pool::kMaxRegistrars.
  std::vector<std::shared_ptr<Registrar>> registrars{};
};

// ---- options of a message ------------------------------------------------------------------

/// Facts that one message carries beside its payload, and how it travels.
struct SendOptions {
  /// How long to wait for a credit. With send_async(), also how long the message may wait behind
  /// others.
  Deadline deadline = Deadline::never();
  SendMode mode = SendMode::automatic;  ///< `automatic`: PayloadOptions::mode.
  std::uint32_t type = 0;               ///< MessageInfo::type.
  std::uint64_t user = 0;               ///< MessageInfo::user.
  std::uint64_t correlation = 0;        ///< MessageInfo::correlation; calls and replies set it.
  std::uint64_t deadline_ns = 0;        ///< MessageInfo::deadline_ns; calls set it.
  /// Conversion of each part, unless Draft::as() says otherwise. Must live until the send has
  /// ended. Null: as PayloadOptions::as says.
  const As* as = nullptr;
};

// ---- a message that is sent before it is filled -------------------------------------------------

namespace detail {
/// The sender of an early message. Private.
class EarlySender {
 public:
  EarlySender() = default;
  EarlySender(const EarlySender&) = delete;
  EarlySender& operator=(const EarlySender&) = delete;
  virtual ~EarlySender() = default;
  virtual void land(std::uint64_t token, Bytes bytes, bool is_last) noexcept = 0;
  virtual void give_up(std::uint64_t token, Bytes landed) noexcept = 0;
};
}  // namespace detail

/// A message that its sender is still filling, from the front, while readers see the part that has
/// landed. Move-only. Dropping it before all bytes have landed gives the message up: its readers
/// get `aborted`, and Consumer::receive() skips it. Used by its producer's thread. A
/// default-constructed one has 0 bytes.
class GANTRY_API EarlyMessage {
 public:
  EarlyMessage() noexcept = default;
  EarlyMessage(EarlyMessage&&) noexcept;
  EarlyMessage& operator=(EarlyMessage&&) noexcept;
  ~EarlyMessage();

  [[nodiscard]] Bytes size() const noexcept { return size_; }  ///< Size of the whole payload.
  /// Bytes from the front that have been declared as landed.
  [[nodiscard]] Bytes landed() const noexcept { return landed_; }
  /// Declares that the first `bytes` of the payload (its segments in order) are final: readers get
  /// them. The message is sent when this covers the whole payload. Errors: `invalid_argument` if
  /// `bytes` is less than before or more than size().
  [[nodiscard]] Result<void> land(Bytes bytes);

  // For Producer:
  EarlyMessage(std::shared_ptr<detail::EarlySender> sender, std::uint64_t token,
               Bytes size) noexcept
      : sender_(std::move(sender)), token_(token), size_(size) {}

 private:
  void give_up() noexcept;
  std::shared_ptr<detail::EarlySender> sender_;  // null: the message is sent or given up
  std::uint64_t token_ = 0;
  Bytes size_ = 0;
  Bytes landed_ = 0;
};

// ---- a session between processes: producers, consumers, credits, counters -----------------------

struct ChannelExplanation;  // in <gantry/runtime.hpp>, with the other states of channels
struct ConsumerExplanation;

// ---- where channels live -------------------------------------------------------------------

/// The folder of channel names: `given` if not empty, otherwise $GANTRY_DIR,
/// $XDG_RUNTIME_DIR/gantry, or gantry-UID under the temporary directory; relative paths in the last
/// two are ignored. Does not check that the folder exists or is safe.
[[nodiscard]] GANTRY_API std::string channel_directory_path(std::string_view given = {});

/// Returns the path of that folder and creates it (mode 0700) if it is missing. Errors:
/// `permission_denied` if others can use it in any way, or another user owns it; `invalid_argument`
/// if it is not a directory, or $GANTRY_DIR is relative: each process would then use a different
/// folder. A relative `given` is accepted.
[[nodiscard]] GANTRY_API Result<std::string> channel_directory(std::string_view given = {});

/// As channel_directory(), for a folder in which the users and groups that `access` lists also find
/// channels. It may belong to root or to a listed user. Others may pass through it (--x) but not
/// read it: a process that can read the folder can hold its lock.
[[nodiscard]] GANTRY_API Result<std::string> channel_directory(std::string_view given,
                                                               const Access& access);

/// Accepts 1 to 64 letters, digits, '.', '_' and '-', not beginning with '.'. Errors:
/// `invalid_argument`.
[[nodiscard]] GANTRY_API Result<void> check_channel_name(std::string_view name);

// ---- counters ------------------------------------------------------------------------------

/// Counters of one end of a channel so far. Times are in nanoseconds.
struct MetricsReport {
  bool opened = false;         ///< The end has been opened.
  bool connected = false;      ///< The end has met its peer.
  bool ended = false;          ///< A stage's endpoint: its stream ended regularly.
  bool broken = false;         ///< A stage's endpoint: its peer left before the end of the stream.
  std::uint64_t messages = 0;  ///< Messages published, or received.
  std::uint64_t bytes = 0;     ///< Payload bytes of those messages.
  std::array<std::uint64_t, kCopyEngines> copies{};        ///< Payload copies, by CopyEngine.
  std::array<std::uint64_t, kCopyEngines> copied_bytes{};  ///< Bytes of those copies.
  std::uint64_t copy_ns = 0;  ///< Time spent copying before hand-off (user-space copies).
  std::uint64_t cpu_ns = 0;   ///< CPU time inside this end's calls, including waits.
  std::uint64_t wait_ns = 0;  ///< Time blocked for a credit, or for a message.
  /// Receiving end: median time from "published" or "asked for", whichever is later, until the
  /// caller has the whole message. A timed message also represents untimed messages near it.
  std::uint64_t handoff_p50_ns = 0;
  std::uint64_t handoff_p99_ns = 0;    ///< 99th percentile of the hand-off times.
  std::uint64_t handoff_p999_ns = 0;   ///< 99.9th percentile of the hand-off times.
  std::uint64_t handoff_total_ns = 0;  ///< Sum of the hand-off times.
  /// Receiving end: time since it last took a message (for a small message, since it asked for the
  /// message); 0 if it has taken none.
  std::uint64_t idle_ns = 0;
  /// A stage's endpoint: time at which it was given up before its regular end, on this host's
  /// monotonic clock. 0: it was not given up, or its process died without a report.
  std::uint64_t left_ns = 0;
};

class Meter;  // private: writes the counters

/// A page of counters that one end writes; others may read it during that end's life and after.
class GANTRY_API Metrics {
 public:
  /// Makes a page to be written by another process, which inherits descriptor().
  [[nodiscard]] static Result<Metrics> create();
  /// Opens a page that another process made. Takes ownership of `descriptor`, even on failure.
  [[nodiscard]] static Result<Metrics> adopt(int descriptor, bool writable);

  Metrics() noexcept;
  Metrics(Metrics&&) noexcept;
  Metrics& operator=(Metrics&&) noexcept;
  ~Metrics();

  /// The descriptor of the page, which other processes map to read the counters.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] MetricsReport report() const;  ///< A nearly consistent snapshot, at any time.
  /// For the end that writes the counters.
  [[nodiscard]] Meter* meter() const noexcept { return meter_; }

 private:
  friend class MetricsMaker;
  Meter* meter_ = nullptr;
  int descriptor_ = -1;
};

// ---- the sending end -----------------------------------------------------------------------

class FarSides;  // private: attaches remote ends

namespace detail {
/// The remote part of an end whose channel is on another host. Private.
class FarSide {
 public:
  FarSide() = default;
  FarSide(const FarSide&) = delete;
  FarSide& operator=(const FarSide&) = delete;
  virtual ~FarSide() = default;
  /// NAME@HOST:PORT.
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
  /// The path that the payload takes, and the reason.
  [[nodiscard]] virtual std::string path() const = 0;
  /// The fate of the remote channel; replaces an error that only says that this process's own relay
  /// is gone.
  [[nodiscard]] virtual Error reason(Error error) const = 0;
  /// Connects again, so that the end can be opened anew.
  [[nodiscard]] virtual Result<void> reconnect(Deadline deadline) = 0;
  /// Waits until the remote side has received the end of the stream.
  [[nodiscard]] virtual Result<void> finish(Deadline deadline) = 0;
  /// Waits for a message in place of the relay's thread, unless `is_there`. True: a message or
  /// another event has come. False: wait as without a far side.
  [[nodiscard]] virtual bool receive(Deadline deadline, const std::function<bool()>& is_there) = 0;
  /// Reports that a message of `bytes` was published and may be sent now.
  virtual void has_sent(Bytes bytes) noexcept = 0;
};

/// A temporary that owns the bytes that it converts to.
template <class Given>
concept OwningTemporary =
    !std::is_lvalue_reference_v<Given> && std::is_convertible_v<Given, ConstByteSpan> &&
    !std::ranges::enable_borrowed_range<std::remove_cvref_t<Given>>;
}  // namespace detail

/// The sending end. Used by one thread at a time. Dropping it without close() tells the consumers
/// that the stream broke: they get all published messages, then `peer_gone`.
///
/// In a child of fork(), the copy of an end, sending or receiving, belongs to the parent: each call
/// on it fails with `invalid_argument`, and dropping it does nothing. The child must open its own
/// ends.
///
/// On a moved-from end of any class, each call that returns a Result fails with `invalid_argument`;
/// other calls return empty values and do nothing. Only pool() must not be called.
class GANTRY_API Producer {
 public:
  /// Takes the name and listens; consumers may come at any later time. Errors: `already_exists`
  /// when a live process has the name; `permission_denied`, `not_found` for the folder;
  /// `invalid_argument` for names and options, also if `access` lists users whom a mode excludes.
  [[nodiscard]] static Result<Producer> open(std::string_view name, const ProducerOptions& options,
                                             std::shared_ptr<Engine> engine);
  /// Connects to the inbox (gantry/call.hpp) of that name and waits until `deadline` for it to
  /// appear. The result behaves as after open(). When the inbox is gone, sending fails with
  /// `peer_gone`; wait_for_consumer() then looks for its successor, which gets all messages that
  /// the old inbox had not taken. Ignores ProducerOptions::consumers. Errors: `timed_out`, `busy`
  /// when the inbox is full, `permission_denied`, `invalid_argument` when the name belongs to a
  /// producer.
  [[nodiscard]] static Result<Producer> connect(std::string_view name,
                                                const ProducerOptions& options,
                                                std::shared_ptr<Engine> engine,
                                                Deadline deadline = Deadline::never());
  Producer(Producer&&) noexcept;
  Producer& operator=(Producer&&) noexcept;
  ~Producer();

  /// Copies `payload` into shared memory and publishes it by SendOptions::mode; on return the
  /// caller may reuse `payload`. Waits for a credit. Messages sent before any consumer has joined
  /// wait for the first one; after the last consumer has left, sends fail until another joins.
  /// Errors: `timed_out`, which names the cause of the wait; `peer_gone` (the last consumer left;
  /// the message was not sent, even if another has joined since), or `system` or `out_of_memory` if
  /// that consumer left for lack of descriptors or memory; `interrupted`, `too_large`,
  /// `out_of_memory`; `busy` when loans of this producer hold all credits, and `out_of_memory` when
  /// they leave no room, both without waiting, since only the caller can free them;
  /// `invalid_argument` for a payload at nullptr, or one above 64 bytes that cannot be read.
  [[nodiscard]] Result<void> send(ConstByteSpan payload, const SendOptions& options = {});
  [[nodiscard]] Result<void> send(ConstByteSpan payload, Deadline deadline) {
    return send(payload, SendOptions{.deadline = deadline});
  }
  /// Sends several segments as one message; see Draft. An empty draft sends one empty segment.
  [[nodiscard]] Result<void> send(Draft draft, const SendOptions& options = {});
  /// Sends a block of pool() without a copy. If you keep another handle to it (Block::share()), do
  /// not write to the block until every reader has released the message. The block is consumed,
  /// even on failure. Errors: as send(), and `invalid_argument` for an empty block, a block of
  /// another pool, or a block that a container also owns: see Draft::move().
  [[nodiscard]] Result<void> send(GANTRY_TAKES(unconsumed) Block block,
                                  const SendOptions& options = {});

  /// Sends each payload as a separate message, with the same options; payloads of up to 64 B share
  /// one lock and at most one wake-up. Returns the number sent, counted from the first: fewer than
  /// all only if an error, for instance the deadline, stopped the batch; the next call reports it.
  /// Errors: as send(), if none was sent.
  [[nodiscard]] Result<std::size_t> send_batch(std::span<const ConstByteSpan> payloads,
                                               const SendOptions& options = {});

  /// As send(), but does not wait. Payloads of up to 64 KiB (1 MiB in a process with fewer than
  /// three CPUs) are sent within the call if that can be done without waiting; larger ones are
  /// queued to a thread, and so are all sends behind a queued one. Whatever the size, do not change
  /// a copied payload before its send has ended. Messages are published in the order of the calls.
  /// Errors: `busy` when kMaxUnsent sends are waiting; other errors are the ticket's outcome.
  [[nodiscard]] Result<Ticket> send_async(ConstByteSpan payload, const SendOptions& options = {});
  [[nodiscard]] Result<Ticket> send_async(Draft draft, const SendOptions& options = {});
  template <detail::OwningTemporary Gone>
  [[nodiscard]] Result<Ticket> send_async(Gone&&, const SendOptions& = {}) {
    static_assert(!detail::OwningTemporary<Gone>,
                  "send_async() reads the payload after it has returned: pass memory that lives "
                  "until the ticket ends, not a temporary");
    return tl::unexpected(Error{});
  }
  static constexpr std::size_t kMaxUnsent = 64;  ///< Largest number of queued sends.

  /// `done`: the caller may reuse the buffer, and the readers have the message. Any thread.
  [[nodiscard]] Outcome outcome(Ticket ticket) const noexcept;
  /// Waits until the ticket's send has ended and returns its error; also `timed_out`.
  [[nodiscard]] Result<void> wait(Ticket ticket, Deadline deadline = Deadline::never());
  /// A descriptor for poll() or epoll. Readable when a send has ended since note_woken(); then
  /// check the outcome of every awaited ticket. Errors: `invalid_argument` before the first
  /// send_async().
  [[nodiscard]] Result<int> sent_descriptor();
  /// Makes sent_descriptor() unreadable until the next send ends.
  void note_woken() noexcept;

  /// Lends memory for a message of `size` bytes (at least 1). Waits for a credit, but not for one
  /// that only a loan of this producer can give back. Errors: as send().
  [[nodiscard]] Result<Loan> loan(Bytes size, Deadline deadline = Deadline::never());
  /// Publishes a loan of this producer. Never waits for a credit. The loan is consumed, even on
  /// failure.
  [[nodiscard]] Result<void> publish(GANTRY_TAKES(unconsumed) Loan loan,
                                     const SendOptions& options = {});

  /// Publishes a message before its bytes are written: readers get the message at once, and its
  /// bytes as EarlyMessage::land() declares them. Its parts are blocks of pool(). Until the message
  /// has landed or was given up, other sends and close() fail with `busy`; only loan() still works.
  /// Errors: as send(), and `invalid_argument` for parts that are not blocks.
  [[nodiscard]] Result<EarlyMessage> send_early(Draft draft, const SendOptions& options = {});

  /// The pool of this channel's payload; its blocks can be sent without a copy. After the first
  /// call the channel no longer keeps a block for its next small message, so the caller has the
  /// whole budget.
  [[nodiscard]] Pool pool() const;

  /// Waits until `count` consumers have joined.
  [[nodiscard]] Result<void> wait_for_consumer(Deadline deadline = Deadline::never(),
                                               unsigned count = 1);

  /// Ends the stream, then waits until every consumer has received all of it. Waits for a first
  /// consumer even if nothing was sent; otherwise that consumer would wait for a producer forever.
  /// On error the stream still ends: queued sends complete first.
  [[nodiscard]] Result<void> close(Deadline deadline = Deadline::never());

  /// Counters of this end since it was opened.
  [[nodiscard]] MetricsReport metrics() const;

  /// Explains how and why a payload of that size would be sent, and the state of the channel: its
  /// readers, the holders of its slots, and the ends that delay others. Any thread; takes
  /// microseconds.
  [[nodiscard]] ChannelExplanation explain(Bytes payload = Bytes{1} << 20) const;

  class Impl;

 private:
  friend class FarSides;
  explicit Producer(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
  std::shared_ptr<detail::FarSide> far_side_;  // null: the channel is on this host
};

// ---- the receiving end ---------------------------------------------------------------------

/// A message that may still be landing. It can be taken chunk by chunk, or whole at the end.
/// Move-only; dropping it discards the rest. Used by its consumer's thread. If the consumer is
/// destroyed first, no more bytes land, and calls on a streamed message fail with `closed`. A
/// default-constructed one has 0 bytes, and its calls fail with `invalid_argument`.
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
  /// True with SendMode::streamed: chunks pass through and are not kept.
  [[nodiscard]] bool is_streamed() const noexcept;

  /// Returns the bytes that have landed after the last chunk; waits until there are some. Empty at
  /// the end. A chunk of a streamed message is valid until the next call. Errors: `timed_out`,
  /// `interrupted`, `peer_gone`, `aborted` (the sender gave the message up); after the last two no
  /// more bytes come.
  [[nodiscard]] Result<ConstByteSpan> next(Deadline deadline = Deadline::never());
  /// Waits until the first `bytes` of the payload have landed and returns them. For a streamed
  /// message they are copied, as by whole(). Errors: as next(); `invalid_argument` if some of them
  /// were already taken.
  [[nodiscard]] Result<ConstByteSpan> wait_for(Bytes bytes, Deadline deadline = Deadline::never());
  /// Copies the bytes after the latest chunk as the bytes land, and returns their number. After
  /// `timed_out` or `interrupted`, call again with the same buffer; the copy continues. Errors: as
  /// next(); `invalid_argument` when the rest does not fit, or when the buffer differs from an
  /// earlier one that already holds chunks of a streamed message. Neither error takes any bytes.
  [[nodiscard]] Result<Bytes> into(ByteSpan destination, Deadline deadline = Deadline::never());
  /// Converts the whole payload as it lands, by a plan whose source is the payload, and returns the
  /// plan's destination_bytes(). A plan that permutes waits for the whole payload first, and needs
  /// private memory for a streamed message (ReceiveLimits::gathered_bytes). After `timed_out` or
  /// `interrupted`, call again with the same buffer and plan. Errors: as next(); `invalid_argument`
  /// when the payload (its size, or its tensor if it has one) does not match the plan's source, the
  /// buffer is too small, or some of a streamed message was taken otherwise.
  [[nodiscard]] Result<Bytes> into(ByteSpan destination, const ReshapePlan& plan,
                                   Deadline deadline = Deadline::never());
  /// Type and shape of the first segment, if the sender gave them.
  [[nodiscard]] std::optional<Tensor> tensor() const noexcept;
  /// Returns the whole payload as a message, once. A streamed payload is copied; none of it may
  /// have been read before.
  [[nodiscard]] Result<Message> whole(Deadline deadline = Deadline::never());

  class Impl;
  explicit Incoming(std::unique_ptr<Impl> impl) noexcept;

 private:
  std::unique_ptr<Impl> impl_;
};

/// The receiving end. Used by one thread at a time; any thread may release messages.
class GANTRY_API Consumer {
 public:
  class Impl;
  /// Joins the channel and waits until `deadline` for its producer to appear. A producer that has
  /// appeared gets 200 ms to answer, even past the deadline, so that it does not see a consumer
  /// come and leave. Errors: `invalid_argument` for a name or options, or if an inbox has the name;
  /// `timed_out`, `already_exists` when the channel has its full number of consumers, `busy` when
  /// former consumers of this user still hold too many of its messages, `permission_denied`,
  /// `peer_misbehaved`, `peer_gone` when producers end as soon as they are found.
  [[nodiscard]] static Result<Consumer> open(std::string_view name, const ConsumerOptions& options,
                                             Deadline deadline = Deadline::never());
  Consumer(Consumer&&) noexcept;
  Consumer& operator=(Consumer&&) noexcept;
  ~Consumer();

  /// Returns the next message, whole. Skips messages that their sender gave up. Errors: `closed` at
  /// the regular end, `peer_gone`, `timed_out`, `interrupted`, `peer_misbehaved`;
  /// `invalid_argument` while receive_into() has copied only part of a streamed message.
  [[nodiscard]] Result<Message> receive(Deadline deadline = Deadline::never());
  /// Waits for the next message, as receive() does, calls `function(const Message&)` with it, and
  /// gives the message back when the function returns or throws. What the function throws goes on
  /// to the caller. The bytes are read where they lie: payloads that receive() would copy out
  /// (beside their records, up to PayloadOptions::cell_bytes) are not copied. So the function must
  /// not keep a pointer to them; AddressSanitizer reports a use of such a payload after the look.
  ///
  /// The message counts as received when the function is called. The producer goes on meanwhile,
  /// except where the message holds a slot. Within the function, calls of this consumer that take
  /// messages, and rejoin(), fail with `busy`; sends, also to this channel, and explain() work. The
  /// function may destroy the consumer: the message stays valid until it returns. A fork()ed child
  /// may read the message until the parent's function returns. Errors: as receive(); then the
  /// function was not called.
  template <class Function>  // NOLINTNEXTLINE(cppcoreguidelines-missing-std-forward)
  [[nodiscard]] Result<void> look(Function&& function, Deadline deadline = Deadline::never()) {
    const Look look(*this, deadline);
    if (!look.message()) return tl::unexpected(look.message().error());
    function(*look.message());
    return {};
  }
  /// What look() does around its function, for languages whose functions are not called from here:
  /// the constructor waits, the destructor gives the message back. Used by the consumer's thread.
  class GANTRY_API Look {
   public:
    Look(Consumer& consumer, Deadline deadline);
    ~Look();
    Look(const Look&) = delete;
    Look& operator=(const Look&) = delete;
    /// Errors: as receive(); then nothing is looked at.
    [[nodiscard]] const Result<Message>& message() const noexcept { return message_; }

   private:
    Result<Message> message_;
    Impl* impl_;  // null: nothing is looked at
  };
  /// Drops the messages in `into`, waits for one message, then also takes further complete
  /// messages, up to the size of `into`. Returns their number. Errors: as receive(), and
  /// `invalid_argument` if `into` is empty. An error after the first message is returned by the
  /// next call.
  [[nodiscard]] Result<std::size_t> receive_batch(std::span<Message> into,
                                                  Deadline deadline = Deadline::never());
  /// Returns the next message as soon as it is visible, from its first byte. Errors: as receive().
  [[nodiscard]] Result<Incoming> receive_early(Deadline deadline = Deadline::never());
  /// Result of receive_into().
  struct Copied {
    Bytes bytes = 0;   ///< Size of the payload.
    MessageInfo info;  ///< Facts about that message.
  };
  /// Copies the next message chunk by chunk as it lands. A message that does not fit remains the
  /// next one; the error is `invalid_argument` and names the message's size. After `timed_out`,
  /// continue as with Incoming::into().
  [[nodiscard]] Result<Copied> receive_into(ByteSpan destination,
                                            Deadline deadline = Deadline::never());

  /// Converts the next message by a plan whose source is the payload: see Incoming::into().
  /// Copied::bytes is the size of the result.
  [[nodiscard]] Result<Copied> receive_into(ByteSpan destination, const ReshapePlan& plan,
                                            Deadline deadline = Deadline::never());

  /// Result of receive_any().
  struct Any {
    std::size_t index;  ///< Position within `consumers`.
    Message message;    ///< The next message of that consumer, whole.
  };
  /// Returns the next message of any of `consumers`, and the index of its consumer. Skips consumers
  /// that are `closed`. Errors: those of receive(); `closed` when all consumers are closed.
  [[nodiscard]] static Result<Any> receive_any(std::span<Consumer> consumers,
                                               Deadline deadline = Deadline::never());

  /// After `peer_gone`: joins the next producer of the name. Messages that are still held stay
  /// valid.
  [[nodiscard]] Result<void> rejoin(Deadline deadline = Deadline::never());

  /// A descriptor for poll() or epoll; readable when receive() may have a result, but reliably only
  /// after a receive call with an expired deadline has returned `timed_out`. After such a call on a
  /// landing message (Incoming), the descriptor also becomes readable when more bytes land.
  [[nodiscard]] Result<int> event_descriptor();

  /// Counters of this end since it was opened.
  [[nodiscard]] MetricsReport metrics() const;

  /// Explains the state of this end: messages that wait for it, messages that it holds and for how
  /// long, and the state of its producer.
  [[nodiscard]] ConsumerExplanation explain() const;

 private:
  friend class FarSides;
  explicit Consumer(std::shared_ptr<Impl> impl) noexcept;
  [[nodiscard]] Result<Message> next(Deadline deadline, bool in_place);
  std::shared_ptr<Impl> impl_;
  std::shared_ptr<detail::FarSide> far_side_;  // null: the channel is on this host
};

/// Prefix of the folders below the channel directory that `gantry run` makes, one for each run.
inline constexpr std::string_view kRunPrefix = "run-";
/// File in such a folder that holds the pipeline's name.
inline constexpr const char* kRunFile = ".runner";
/// Prefix of the folders for this process's ends of channels of other hosts (NAME@HOST).
inline constexpr std::string_view kLinkPrefix = "link-";

}  // namespace gantry
