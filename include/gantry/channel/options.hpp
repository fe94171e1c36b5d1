#pragma once  // gantry/channel/options.hpp: what is said when an end is opened or a message sent.

#include <gantry/memory.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gantry {

// ---- with whom and how ---------------------------------------------------------------------

/// A thread that serves the sockets of many ends, while there are any: EndOptions::acceptor.
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
  automatic,  ///< PayloadOptions::mode; there: by size.
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
  /// Permissions of the socket file, of the end that has the name: whom the kernel lets connect at
  /// all. With group bits the file gets the first of `groups`.
  unsigned socket_mode = 0600;
  std::vector<unsigned> users{};   ///< Numbers. To both ends: also of whom a producer is accepted.
  std::vector<unsigned> groups{};  ///< Any of a process's groups counts.
  std::string token{};             ///< Must be the same at both ends. At most 64 bytes.
};

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

// ---- of an end -----------------------------------------------------------------------------

/// What every end may say. Producers, consumers, inboxes, servers and clients begin with it.
struct EndOptions {
  std::string directory{};  ///< Empty: channel_directory()'s rule.
  /// How long a waiting end polls at most before it sleeps; a 64th while news come later. 0: never.
  std::chrono::nanoseconds spin{50'000};
  /// When this descriptor becomes readable, waiting calls return `interrupted`. Not owned.
  int interrupt_descriptor = -1;
  /// Where to count; -1: a page of the end's own. Owned by the end from then on.
  int metrics_descriptor = -1;
  /// Who may join, and whom to join. For users other than one's own the folder must let them pass
  /// (mode 711) and no more.
  Access access{};
  /// The thread that lets peers in and sees them go; consumers only share through it by what they
  /// see their producer's process end. A Runtime has one for all that it opens. Empty: one of the
  /// end's own; a consumer does without.
  std::shared_ptr<Acceptor> acceptor{};
};

/// How many payloads go out at a time, where they lie and how they get there: of a producer, of
/// what a client asks, and of what a server answers each of its clients.
struct PayloadOptions {
  static constexpr unsigned kMaxSlots = 64;
  /// Credits: messages that may be published and not yet released. 1 to kMaxSlots.
  unsigned slots = 8;
  /// Credits in bytes: payload in blocks that is published and not yet released; a single larger
  /// message goes alone. 0: only the pool's budget limits it.
  Bytes bytes_in_flight = 0;
  /// Payload memory. Empty: a pool of the channel's own, made by `pool`. A consumer maps whole
  /// slabs of it, read-only: share no pool between channels whose consumers must not see each
  /// other's messages.
  std::optional<Pool> memory{};
  PoolOptions pool{};
  /// How messages go whose SendOptions do not say.
  SendMode mode = SendMode::automatic;
  /// The CPUs that the thread behind send_async() is to run on, as far as the kernel lets it; there
  /// it polls for up to 100 ms after a send (unless `spin` is zero), as waking it costs the next
  /// send more than all else. Empty: those of the thread that calls send_async() first, which is of
  /// little use where that one is bound to a single CPU.
  std::vector<int> progress_cpus{};
  /// Threads that copy a payload of 4 MiB or more in send(), the caller among them: 1 or 2. 0: 2
  /// where the calling thread may use three CPUs, or progress_cpus names some, on which the second
  /// is then to run.
  unsigned copy_threads = 0;
};

/// In braces the shared ones come first: `{shared, {.slots = 4}}`.
struct ProducerOptions : EndOptions, PayloadOptions {
  static constexpr unsigned kMaxConsumers = 32;
  /// How many consumers may be there at a time. 1 to kMaxConsumers. With one, what a consumer that
  /// died had not taken waits for its successor; with more, unless it was the last.
  unsigned consumers = 1;
  /// A consumer that joins gets the last so many messages first, of those that are still there and
  /// find room beside loans that are out. At most slots; they keep their slots.
  unsigned history = 0;
  /// Whether consumers may join with SlowConsumer::block, and so hold up all others. Else such a
  /// one gets `permission_denied`.
  bool consumers_may_block = true;
};

struct ConsumerOptions : EndOptions {
  /// What its producer does when it is slow.
  SlowConsumer when_slow = SlowConsumer::block;
  /// Messages it may have unreleased, at most the producer's slots. 0: all of them; half of them
  /// with a policy other than `block`, so that it cannot hold up the others.
  unsigned depth = 0;
  /// What its producer may cost it; of an inbox: what each of its producers may, by default its
  /// even share and a quarter of what is nobody's share.
  ReceiveLimits receive{};
};

// ---- of a message --------------------------------------------------------------------------

struct SendOptions {
  /// For a credit. Of send_async(): also how long the message may wait behind others.
  Deadline deadline = Deadline::never();
  SendMode mode = SendMode::automatic;
  std::uint32_t type = 0;  ///< MessageInfo
  std::uint64_t user = 0;
  std::uint64_t correlation = 0;
  std::uint64_t deadline_ns = 0;
};

}  // namespace gantry
