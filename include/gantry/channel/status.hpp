#pragma once  // gantry/channel/status.hpp: how channels stand: seen from outside, and explained by
              // their ends.

#include <gantry/channel.hpp>

namespace gantry {

// ---- processes -----------------------------------------------------------------------------

/// What the kernel says of the process at an end.
enum class ProcessState : std::uint8_t {
  unknown,  ///< It cannot be seen: it is in another PID namespace, or there is no /proc.
  running,  ///< It runs or sleeps by itself.
  stopped,  ///< SIGSTOP, Ctrl-Z or a debugger stopped it, until somebody lets it go on.
  zombie,   ///< It has ended and its parent has not collected its status.
  gone,     ///< No process has that number any more.
};
[[nodiscard]] GANTRY_API std::string_view to_string(ProcessState state) noexcept;
/// The state as the kernel shows it now.
[[nodiscard]] GANTRY_API ProcessState process_state(int pid) noexcept;

// ---- one channel ---------------------------------------------------------------------------

/// A message that a consumer still needs.
struct HeldSlot {
  std::uint64_t message = 0;       ///< Its number in the channel.
  Bytes bytes = 0;                 ///< Size of its payload.
  std::chrono::nanoseconds age{};  ///< Time since it was published.
  bool taken = false;              ///< True: in the consumer's hands; false: still in its ring.
};

/// What a producer, or an inbox, says of one consumer.
struct GANTRY_API ConsumerStatus {
  /// The largest time of each count in `handoffs` but the last, in nanoseconds.
  static constexpr std::array<std::uint64_t, 16> kHandoffBoundsNs{
      300,         1'000,         3'000,         10'000,        30'000,     100'000,      //
      300'000,     1'000'000,     3'000'000,     10'000'000,    30'000'000, 100'000'000,  //
      300'000'000, 1'000'000'000, 3'000'000'000, 10'000'000'000};

  int pid = 0;                                 ///< As the producer sees it; 0 if it cannot.
  EndName who{};                               ///< As it says itself.
  unsigned uid = 0;                            ///< The user that its process runs as.
  ProcessState state = ProcessState::unknown;  ///< Of its process, when the status was asked for.
  SlowConsumer policy = SlowConsumer::block;   ///< What it asked for: ConsumerOptions::when_slow.
  unsigned depth = 0;                          ///< Messages it may have unreleased.
  std::uint64_t unread = 0;                    ///< Messages published to it and not taken.
  std::uint64_t dropped = 0;  ///< Messages that passed it over or were taken back from it.
  bool is_cut = false;        ///< The producer hung up on it.
  /// The credits are used up, and would not be without this consumer (or without all that block, if
  /// they hold them together).
  bool holds_up = false;
  std::chrono::nanoseconds joined{};  ///< Time since it joined.
  std::chrono::nanoseconds idle{};    ///< Time since it last took a message, or since it joined.
  std::vector<HeldSlot> held;         ///< The oldest first.
  MetricsReport metrics;              ///< What it has counted itself.
  /// Its hand-offs (MetricsReport::handoff_p50_ns says what they are) by their time, which may be
  /// wrong by an eighth near a bound. No count ever falls.
  std::array<std::uint64_t, kHandoffBoundsNs.size() + 1> handoffs{};

  /// Payload in the messages that it has not released.
  [[nodiscard]] Bytes held_bytes() const noexcept;
  /// True if it is stopped, or if it holds the producer up and has taken nothing for kStuckAfter.
  [[nodiscard]] bool is_stuck() const noexcept;
  static constexpr std::chrono::seconds kStuckAfter{1};  ///< The limit of is_stuck().
};

/// A consumer that left and still holds messages, while its process lives on.
struct DepartedStatus {
  int pid = 0;                                 ///< As ConsumerStatus::pid.
  ProcessState state = ProcessState::unknown;  ///< Of its process, when the status was asked for.
  unsigned messages = 0;                       ///< Those that it has not released.
  Bytes bytes = 0;                             ///< Their payload.
  std::chrono::nanoseconds age{};              ///< Time since the oldest was published.
  EndName who{};                               ///< As it said itself.
};

/// One of the producers connected to an inbox.
struct SenderStatus {
  int pid = 0;                                 ///< 0: it lives in another PID namespace.
  unsigned uid = 0;                            ///< The user that its process runs as.
  ProcessState state = ProcessState::unknown;  ///< Of its process, when the status was asked for.
  std::chrono::nanoseconds joined{};           ///< Time since it connected.
  std::chrono::nanoseconds
      idle{};                  ///< Time since its last message was received, or since it connected.
  std::uint64_t messages = 0;  ///< Messages received from it.
  Bytes bytes = 0;             ///< Their payload.
  EndName who{};               ///< As it says itself.
  unsigned credits = 0;        ///< Messages that it may have out.
  std::uint64_t unread = 0;    ///< Messages that it published and the receiver has not taken.
  std::uint64_t held = 0;      ///< Messages in the receiver's hands that use a credit.
  bool waits = false;          ///< It sleeps until a credit comes back, or all is taken.
};

/// How the newest payload that an engine copied was sent.
struct PathStatus {
  Bytes bytes = 0;                  ///< Size of the payload. 0: none yet; then nothing else counts.
  Bytes moved = 0;                  ///< Size of the last move: a chunk, or all of it.
  SendMode mode = SendMode::whole;  ///< The one that was chosen for it.
  CopyEngine engine = CopyEngine::inline_;  ///< Who executed the last move.
  CacheUse cache = CacheUse::automatic;     ///< The stores that were used.
  std::string why;                          ///< Explanation::text() for such a move at this moment.
};

/// What a channel says of itself to `gantry ls`.
struct GANTRY_API ChannelStatus {
  std::string name;        ///< Of a running pipeline's channel, from list_channels(): "run-…/name".
  std::string pipeline{};  ///< Its name, if `gantry run` made the channel; otherwise empty.
  int producer_pid = 0;    ///< 0: unknown.
  EndName producer_who{};  ///< As it says itself.
  unsigned producer_uid = 0;  ///< The user that it runs as, if it is known.
  ProcessState producer_state = ProcessState::unknown;  ///< `unknown` for an inbox.
  /// False: nothing below is known but `age`, and `silence` says why.
  bool answered = false;
  std::string silence;             ///< Empty once it has answered.
  std::chrono::nanoseconds age{};  ///< Time since it was opened.

  /// True if the name is a receiver's, to which any number of producers connect
  /// (gantry/channel/inbox.hpp; a server is one, too). Then `consumers` has that receiver,
  /// producer_pid is 0, `senders` are the producers, `producer` counts what was received of all of
  /// them, and the fields below belong to them.
  bool is_inbox = false;
  bool is_server = false;      ///< Of an inbox: it is a Server's, and its senders are clients.
  unsigned senders_limit = 0;  ///< InboxOptions::producers, or ServerOptions::clients.
  std::vector<SenderStatus> senders;  ///< At most 1024 are listed.

  SendMode mode = SendMode::automatic;  ///< PayloadOptions::mode.
  bool ended = false;                   ///< The producer has ended the stream.
  unsigned slots = 0;                   ///< Credits in all.
  unsigned slots_held = 0;              ///< Slots in use, for whatever reason; may exceed `slots`.
  unsigned slots_charged = 0;           ///< Credits in use, by messages without a slot, too.
  unsigned slots_sending = 0;           ///< Slots that the producer fills or has lent.
  Bytes bytes_in_flight = 0;            ///< The limit; 0: only the pool's budget limits it.
  Bytes bytes_charged = 0;              ///< Payload in the slots that count as credits.
  unsigned consumers_limit = 0;         ///< ProducerOptions::consumers.
  unsigned history_limit = 0;           ///< ProducerOptions::history.
  unsigned history = 0;                 ///< Messages kept for late joiners now.
  std::uint64_t backlog = 0;            ///< Messages that wait for a first consumer.
  Bytes slab_bytes = 0;                 ///< Payload memory taken from the system.
  Bytes live_bytes = 0;                 ///< Part of it that is in blocks.
  Bytes budget_bytes = 0;               ///< The most it may grow to.
  Bytes peak_bytes = 0;                 ///< The most that was ever in blocks.
  /// Present registrations of the pool's registrars, which may serve other memory, too.
  std::uint64_t registrations = 0;
  std::uint64_t refused_registrations = 0;  ///< Of the pool's slabs.
  std::string engine;                       ///< Name of the one that copies for send().
  PathStatus path;                          ///< How the newest payload went.
  MetricsReport producer;                   ///< What the sending end has counted.
  std::vector<ConsumerStatus> consumers;    ///< Those that are joined now.
  std::vector<DepartedStatus> departed;     ///< Who left with messages in hand.

  /// The name for people, the same in each run of a pipeline: "vision/frames.0.1".
  [[nodiscard]] std::string shown_name() const;
  /// Messages published and not taken by the consumer that is furthest behind.
  [[nodiscard]] std::uint64_t depth() const noexcept;
  /// What people should know: who is stuck and for how long, who does not answer, who left with
  /// messages in hand. One line each, without a full stop.
  [[nodiscard]] std::vector<std::string> notes() const;
};

/// True if no person chose the name: a queue of work without a name, a pipe of Python's, or the
/// putting half of a queue. Lists of names to choose from leave it out.
[[nodiscard]] GANTRY_API bool is_made_up_name(std::string_view name) noexcept;

/// Lists every live channel below `directory`, those of running pipelines too (as "run-…/name").
/// Removes sockets whose producer is gone, in a folder of this user. Root may look into anybody's
/// folder. Asks many channels at a time; one that does not answer
/// within a second is listed with what is known without it.
[[nodiscard]] GANTRY_API Result<std::vector<ChannelStatus>> list_channels(
    std::string_view directory);

// ---- an end explains itself ----------------------------------------------------------------

/// How a sending end stands, and why: Producer::explain().
struct GANTRY_API ChannelExplanation {
  ChannelStatus status;              ///< What `gantry ls` would be told.
  Bytes payload = 0;                 ///< The size that was asked about.
  SendMode mode = SendMode::whole;   ///< How send() would send it.
  std::vector<std::string> because;  ///< Why in that mode.
  Explanation path;                  ///< Which engine would copy it; no candidates if none.
  std::vector<std::string> waits;    ///< What a send() would wait for now; empty: nothing.
  std::string link;  ///< Of another host's channel: the RemotePath in use, and why. Else empty.

  /// The same for people, some lines.
  [[nodiscard]] std::string text() const;
};

/// What one of a consumer's registrars knows of the producer's memory.
struct ReceivedRegistration {
  std::string registrar;      ///< Its name.
  std::uint64_t slabs = 0;    ///< Slabs that it knows now.
  Bytes bytes = 0;            ///< Their bytes.
  std::uint64_t refused = 0;  ///< Slabs that it was to know and does not.
  std::string why;            ///< Why not, of one of these; else empty.
};

/// How a receiving end stands, and why: Consumer::explain().
struct GANTRY_API ConsumerExplanation {
  std::string name;                                     ///< The channel's.
  int producer_pid = 0;                                 ///< 0: it lives in another PID namespace.
  ProcessState producer_state = ProcessState::unknown;  ///< `unknown` without a pid.
  SlowConsumer policy = SlowConsumer::block;            ///< ConsumerOptions::when_slow.
  unsigned depth = 0;            ///< Messages it may have unreleased, as its producer says.
  std::uint64_t unread = 0;      ///< Messages published to it and not taken.
  std::uint64_t dropped = 0;     ///< Messages taken back before it took them, as far as it knows.
  bool landing = false;          ///< The next message is taken and has not landed whole.
  bool producer_gone = false;    ///< It left or died; what it published can still be received.
  bool ended = false;            ///< The stream ends with the unread messages.
  bool producer_sleeps = false;  ///< It waits for a credit, or for a message that it passed on.
  std::vector<HeldSlot> held;    ///< Unreleased messages, the oldest first.
  std::size_t copies_held = 0;   ///< Unreleased messages besides, copied out: they hold no slot.
  Bytes gathered_bytes = 0;      ///< Private memory of streamed messages that were received whole.
  Bytes mapped_bytes = 0;        ///< Mapped memory of the producer.
  std::chrono::nanoseconds spin{};  ///< How long a wait polls at present before it sleeps.
  std::string broken;               ///< Why this end trusts its producer no more; else empty.
  MetricsReport metrics;            ///< What this end has counted.
  std::vector<ReceivedRegistration> registrars;  ///< One for each of ConsumerOptions::registrars.
  std::string link;  ///< Of another host's channel: the RemotePath in use, and why. Else empty.

  /// The same for people, some lines.
  [[nodiscard]] std::string text() const;
};

}  // namespace gantry
