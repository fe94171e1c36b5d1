#pragma once  // gantry/channel/options.hpp: options for opening an end and for sending a message.

#include <chrono>
#include <gantry/memory.hpp>
#include <gantry/shape.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gantry {

// ---- with whom and how ---------------------------------------------------------------------

/// A thread that serves the sockets of many ends, as long as there are any: EndOptions::acceptor.
class Acceptor;
/// Starts such a thread. Errors: `system`.
[[nodiscard]] GANTRY_API Result<std::shared_ptr<Acceptor>> make_acceptor();

/// When a message is visible to its readers, and how they get it. In send() the caller copies;
/// send_async() waits for nothing, and what it hands over is copied behind the caller.
enum class SendMode : std::uint8_t {
  automatic,  ///< PayloadOptions::mode; there: by size.
  whole,      ///< Copied, then published.
  /// Published, then copied: readers take chunks as they land. It ends up complete in a block.
  pipelined,
  /// Published, then copied through a window that stays in the cache: readers take chunks as they
  /// land and must give each back before the next can come.
  streamed,
  /// As `whole`, in memory of its own, which the kernel then seals: nobody, the sender included,
  /// can change it any more. Costs a descriptor and a mapping a message.
  immutable,
};
[[nodiscard]] GANTRY_API std::string_view to_string(SendMode mode) noexcept;

/// What the producer does about a consumer that has as many unreleased messages as it may have.
/// Gaps in the message numbers show a consumer what it missed. While any consumer has another
/// policy than `block`, `streamed` becomes `pipelined`, since a window would have to wait for it.
enum class SlowConsumer : std::uint8_t {
  block,        ///< The producer waits for it. The default.
  drop_newest,  ///< The message passes it over and goes only to the others.
  disconnect,   ///< It is cut off. It may take what has landed, then gets `peer_gone`.
  drop_oldest,  ///< The oldest message that it has not taken is taken back for the newest. It keeps
                ///< what it took. If it holds fewer than its depth, it finds the newest.
};
[[nodiscard]] GANTRY_API std::string_view to_string(SlowConsumer policy) noexcept;

/// Who may be at the other end besides processes of the same user and of root.
struct Access {
  /// Permissions of the socket file, set by the end that has the name: whom the kernel lets connect
  /// at all. With group bits the file belongs to the first of `groups`. Those in the lists need a
  /// write bit (users without `groups`: that of all others) and a folder that lets them pass, else
  /// `invalid_argument`. 0666 leaves the choice to the lists. See docs/tasks/other-users.md
  unsigned socket_mode = 0600;
  std::vector<unsigned> users{};   ///< User numbers; also those from which a producer is accepted.
  std::vector<unsigned> groups{};  ///< Group numbers; any group of a process counts.
  std::string token{};             ///< Must be the same at both ends. At most 64 bytes.
};

/// What a sender may cost its receiver at most; 0: a default for the receiving process. The
/// receiver hangs up on a sender that needs more, with an error that says what to raise.
struct ReceiveLimits {
  /// Slabs of the sender's pool that the receiver maps at a time; each costs a descriptor and a
  /// mapping. Default: for a consumer half the limit of open files; for an inbox what all its
  /// senders together leave of that limit.
  std::uint64_t slabs = 0;
  /// Address space for these slabs. Default: half the limit (ulimit -v), or half of what a process
  /// has.
  Bytes mapped_bytes = 0;
  /// Private memory for streamed messages that are received whole, until they are released.
  /// Default: half of the machine's memory, or of the control group's limit. Receiving chunk by
  /// chunk costs none.
  Bytes gathered_bytes = 0;
  /// Bytes of these slabs that ConsumerOptions::registrars are told of: registering a slab makes
  /// all its pages, also those that the sender never wrote. A slab beyond it is received and not
  /// registered. Default: as gathered_bytes.
  Bytes registered_bytes = 0;
};

// ---- of an end -----------------------------------------------------------------------------

/// How payload of another host's channel travels. Whichever but `automatic` is named must be had:
/// else the end is not opened, with `unsupported`, and a session whose connection breaks goes on
/// over that path alone.
enum class RemotePath : std::uint8_t {
  automatic,  ///< The best that both ends have: `shared` where it can be, else `stream`.
  stream,     ///< Down the connection, received straight into its place.
  fabric,     ///< Read by libfabric over a connection of its own, provider "tcp". Needs IPv4.
  shared,     ///< Copied once, out of memory that both map. Both ends are on one kernel.
};
[[nodiscard]] GANTRY_API std::string_view to_string(RemotePath path) noexcept;

/// For an end whose name is NAME@HOST[:PORT] or NAME@unix:/PATH: a channel of another host, or of
/// another namespace of this one, reached by way of the bridge there (gantry/link/bridge.hpp).
struct RemoteOptions {
  /// The secret of that bridge, 16 to 64 bytes. Empty: the first line of the file that
  /// $GANTRY_TOKEN_FILE names.
  std::string token{};
  /// A bridge of which nothing is heard for this long is gone.
  std::chrono::milliseconds stall_limit{10'000};
  /// How long a connection that broke is tried again, with all that was on its way.
  std::chrono::milliseconds patience{5'000};
  RemotePath path = RemotePath::automatic;  ///< How payload travels.
};

/// Whose an end is, for people. Each end says it of itself, so nothing is decided by it.
struct GANTRY_API EndName {
  static constexpr std::size_t kMostBytes = 63;  ///< Of each text; a longer one is cut.
  std::string host{};                            ///< As its kernel calls it.
  std::string command{};  ///< Its program; "python3 score.py", "gantry put" where that says more.
  std::string stage{};    ///< Of `gantry run`; otherwise empty.
  unsigned replica = 0;   ///< Of the stage, from 0.
  unsigned replicas = 0;  ///< That the stage has; 0: it is no stage.

  /// "score", of several replicas "score.1"; of no stage the command. Empty if nothing is known.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool operator==(const EndName&) const = default;
};
/// That of this process.
[[nodiscard]] GANTRY_API EndName own_end_name();

/// Options of every end: producers, consumers, inboxes, servers and clients.
struct EndOptions {
  std::string directory{};  ///< Empty: by the rule of channel_directory().
  /// The longest time that a waiting end polls before it sleeps; drops to a 64th while messages
  /// come later than that. 0: it never polls.
  std::chrono::nanoseconds spin{50'000};
  /// Waiting calls return `interrupted` when this descriptor is readable. Not owned.
  int interrupt_descriptor = -1;
  /// The page to count in, made by Metrics::create(); the end takes ownership. -1: a page of the
  /// end's own.
  int metrics_descriptor = -1;
  /// Who may join, and whom to join. For other users the folder must let them pass and no more
  /// (mode 711).
  Access access{};
  /// The thread that lets peers in and notices when they go. Consumers share it only to see their
  /// producer's process end. A Runtime has one for all its ends. Empty: a producer gets one of its
  /// own; a consumer needs none.
  std::shared_ptr<Acceptor> acceptor{};
  /// How a channel of another host is reached.
  RemoteOptions remote{};
  /// Whether an end that waits two seconds for a name says so in one line on standard error, on
  /// this host with the names that there are. A Runtime adds its own RuntimeOptions::notices.
  bool notices = false;
  /// Whose end it is, if it acts for one elsewhere. Empty: own_end_name().
  std::optional<EndName> acts_for{};
};

/// How payloads go out: how many at a time, where they lie, how they get there. Used by a producer,
/// for a client's requests, and for a server's replies to each client.
struct PayloadOptions {
  static constexpr unsigned kMaxSlots = 64;  ///< The most that `slots` may be.
  /// Credits: messages that may be published and not yet released. 1 to kMaxSlots.
  unsigned slots = 8;
  /// Credits in bytes: payload in blocks that is published and not yet released. A single larger
  /// message goes alone. 0: only the pool's budget limits it.
  Bytes bytes_in_flight = 0;
  static constexpr Bytes kMaxCellBytes = 4096;  ///< The most that `cell_bytes` may be.
  /// Payloads of at most that many bytes go beside their record while the channel has a single
  /// consumer, one that blocks, and no history. They are copied out on receipt and hold no slot,
  /// so who keeps them holds nobody up. At most kMaxCellBytes; 0: none. Up to 64 B all payloads go
  /// in the record itself.
  Bytes cell_bytes = kMaxCellBytes;
  /// Payload memory. Empty: a pool of the channel's own, made with `pool`. A consumer maps whole
  /// slabs of it, read-only: do not share a pool between channels whose consumers must not see each
  /// other's messages.
  std::optional<Pool> memory{};
  PoolOptions pool{};  ///< How the channel's own pool is made, if `memory` is empty.
  /// The mode of messages whose SendOptions name none.
  SendMode mode = SendMode::automatic;
  /// The CPUs for the thread behind send_async(), as far as the kernel allows. That thread polls
  /// for up to 100 ms after a send (unless `spin` is zero), since waking it costs the next send
  /// more than all else. Empty: the CPUs of the thread that calls send_async() first, which helps
  /// little if that thread is bound to a single CPU.
  std::vector<int> progress_cpus{};
  /// Threads that copy a payload of 4 MiB or more in send(), the caller among them: 1 or 2. 0: 2
  /// where the calling thread may use three CPUs, or where progress_cpus names some for the second.
  unsigned copy_threads = 0;
  /// What each tensor becomes on its way, unless its part or its send says otherwise. Bytes without
  /// a tensor are refused unless As::from says what they are. Empty: as it is sent.
  std::optional<As> as{};
};

/// With braces write the shared options first: `{shared, {.slots = 4}}`.
struct ProducerOptions : EndOptions, PayloadOptions {
  static constexpr unsigned kMaxConsumers = 32;  ///< The most that `consumers` may be.
  /// Consumers that may be joined at a time, 1 to kMaxConsumers. With one, what a consumer had not
  /// taken when it died waits for its successor; with more, only if it was the last.
  unsigned consumers = 1;
  /// Messages that a joining consumer gets first: the newest that still exist and that find room
  /// beside loans that are out. At most `slots`; they keep their slots.
  unsigned history = 0;
  /// Whether consumers may join with SlowConsumer::block, and so hold up all others. If not, they
  /// get `permission_denied`.
  bool consumers_may_block = true;
  /// An eventfd that is rung whenever a consumer has joined or left, so that nobody has to look.
  /// Not owned; it must live as long as the producer. -1: none.
  int consumers_event = -1;
};

/// How a receiving end behaves.
struct ConsumerOptions : EndOptions {
  /// What its producer does when this consumer is slow.
  SlowConsumer when_slow = SlowConsumer::block;
  /// Messages it may have unreleased, at most the producer's slots. 0: all of them; with another
  /// policy than `block` half of them, so that it cannot hold up the others.
  unsigned depth = 0;
  /// What its producer may cost it. For an inbox: what each of its producers may; default: an even
  /// share and a quarter of what is nobody's share.
  ReceiveLimits receive{};
  /// The devices that are to know received memory: see Message::key_for(). Each of the producer's
  /// slabs is registered with each of them, for reading, when its first message is received, until
  /// it is unmapped; explain() says what came of it. Held as long as the consumer and its messages.
  /// At most Pool::kMaxRegistrars.
  std::vector<std::shared_ptr<Registrar>> registrars{};
};

// ---- of a message --------------------------------------------------------------------------

/// What one message says of itself beside its payload, and how it travels.
struct SendOptions {
  /// How long to wait for a credit. With send_async() also how long the message may wait behind
  /// others.
  Deadline deadline = Deadline::never();
  SendMode mode = SendMode::automatic;  ///< `automatic`: PayloadOptions::mode.
  std::uint32_t type = 0;               ///< MessageInfo::type.
  std::uint64_t user = 0;               ///< MessageInfo::user.
  std::uint64_t correlation = 0;        ///< MessageInfo::correlation; calls and replies set it.
  std::uint64_t deadline_ns = 0;        ///< MessageInfo::deadline_ns; calls set it.
  /// What each part becomes on its way, unless Draft::as() says otherwise. It must live until the
  /// send has ended. Null: as PayloadOptions::as says.
  const As* as = nullptr;
};

}  // namespace gantry
