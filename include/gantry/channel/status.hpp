#pragma once  // gantry/channel/status.hpp: how channels stand: from outside, and as their ends
              // explain themselves.

#include <gantry/channel.hpp>

namespace gantry {

// ---- processes -----------------------------------------------------------------------------

enum class ProcessState : std::uint8_t {
  unknown,  ///< It cannot be seen: of another PID namespace, or /proc is not there.
  running,  ///< Or asleep: it goes on by itself.
  stopped,  ///< By SIGSTOP, Ctrl-Z or a debugger: it goes on when somebody lets it.
  zombie,   ///< It has ended and its parent has not asked for its status.
  gone,
};
[[nodiscard]] GANTRY_API std::string_view to_string(ProcessState state) noexcept;
/// As the kernel shows it now.
[[nodiscard]] GANTRY_API ProcessState process_state(int pid) noexcept;

// ---- one channel ---------------------------------------------------------------------------

/// A message that a consumer still needs.
struct HeldSlot {
  std::uint64_t message = 0;       ///< Its number in the channel.
  Bytes bytes = 0;                 ///< Of its payload.
  std::chrono::nanoseconds age{};  ///< Since it was published.
  bool taken = false;              ///< In the consumer's hands; else still in its ring.
};

struct GANTRY_API ConsumerStatus {
  int pid = 0;  ///< As the producer sees it; 0: it does not.
  unsigned uid = 0;
  ProcessState state = ProcessState::unknown;
  SlowConsumer policy = SlowConsumer::block;
  unsigned depth = 0;         ///< Messages it may have unreleased.
  std::uint64_t unread = 0;   ///< Published to it and not taken.
  std::uint64_t dropped = 0;  ///< Messages that passed it over or were taken back from it.
  bool is_cut = false;        ///< The producer hung up on it.
  /// The credits are used up, and without this consumer they would not be (or all that block hold
  /// them together).
  bool holds_up = false;
  std::chrono::nanoseconds joined{};  ///< Since it joined.
  std::chrono::nanoseconds idle{};    ///< Since it last took a message; if none, since it joined.
  std::vector<HeldSlot> held;         ///< The oldest first.
  MetricsReport metrics;

  [[nodiscard]] Bytes held_bytes() const noexcept;
  /// Stopped; or it holds the producer up and has taken nothing for kStuckAfter.
  [[nodiscard]] bool is_stuck() const noexcept;
  static constexpr std::chrono::seconds kStuckAfter{1};
};

/// A consumer that left while its process lives on, with messages still in hand.
struct DepartedStatus {
  int pid = 0;
  ProcessState state = ProcessState::unknown;
  unsigned messages = 0;
  Bytes bytes = 0;
  std::chrono::nanoseconds age{};  ///< Of the oldest, since it was published.
};

/// One of the producers that came to an inbox.
struct SenderStatus {
  int pid = 0;  ///< 0: it lives in another PID namespace.
  unsigned uid = 0;
  ProcessState state = ProcessState::unknown;
  std::chrono::nanoseconds joined{};  ///< Since it came.
  std::chrono::nanoseconds
      idle{};                  ///< Since its last message was received; if none, since it came.
  std::uint64_t messages = 0;  ///< Received of it.
  Bytes bytes = 0;             ///< Their payload.
};

/// How the newest payload went that an engine copied.
struct PathStatus {
  Bytes bytes = 0;  ///< Of the payload. 0: none did yet; nothing else counts then.
  Bytes moved = 0;  ///< Of the last move: a chunk, or all of it.
  SendMode mode = SendMode::whole;
  CopyEngine engine = CopyEngine::inline_;
  CacheUse cache = CacheUse::automatic;
  std::string why;  ///< Explanation::text() for such a move at this moment.
};

/// What a channel says of itself to `gantry ls`.
struct GANTRY_API ChannelStatus {
  std::string name;
  int producer_pid = 0;  ///< 0: not known.
  unsigned producer_uid = 0;
  ProcessState producer_state = ProcessState::unknown;
  /// False: nothing below is known but `age`, and `silence` says why.
  bool answered = false;
  std::string silence;
  std::chrono::nanoseconds age{};  ///< Since it was opened.

  /// The name is a receiver's, to whom any number of producers come (gantry/inbox.hpp; a server is
  /// one, too): `consumers` has that one, producer_pid is 0, `senders` are the producers. Of what
  /// is below, `producer` counts what was received of all of them, and the rest belongs to them.
  bool is_inbox = false;
  unsigned senders_limit = 0;
  std::vector<SenderStatus> senders;  ///< At most 1024 are told of.

  SendMode mode = SendMode::automatic;
  bool ended = false;          ///< The producer has ended the stream.
  unsigned slots = 0;          ///< Credits in all.
  unsigned slots_held = 0;     ///< Slots in use, whoever needs them; may exceed `slots`.
  unsigned slots_charged = 0;  ///< Credits in use.
  unsigned slots_sending = 0;  ///< Slots that the producer is filling, or has on loan.
  Bytes bytes_in_flight = 0;   ///< The limit; 0: only the pool's budget.
  Bytes bytes_charged = 0;     ///< Payload in the slots that count as credits.
  unsigned consumers_limit = 0;
  unsigned history_limit = 0;
  unsigned history = 0;       ///< Messages kept for late joiners now.
  std::uint64_t backlog = 0;  ///< Messages that wait for a first consumer.
  Bytes slab_bytes = 0;       ///< Payload memory, taken from the system.
  Bytes live_bytes = 0;       ///< Of it, in blocks.
  Bytes budget_bytes = 0;     ///< What it may grow to.
  std::string engine;
  PathStatus path;
  MetricsReport producer;
  std::vector<ConsumerStatus> consumers;
  std::vector<DepartedStatus> departed;

  /// Published and not taken by the consumer that is furthest behind.
  [[nodiscard]] std::uint64_t depth() const noexcept;
  /// What a person should know: who is stuck and for how long, who does not answer, who left with
  /// messages in hand. A line each, no full stop at the end.
  [[nodiscard]] std::vector<std::string> notes() const;
};

/// Every live channel below `directory`, those of running pipelines too (as "run-…/name").
/// Removes sockets whose producer is gone. Channels that do not answer within a second are listed
/// with what is known without them; many are asked at a time.
[[nodiscard]] GANTRY_API Result<std::vector<ChannelStatus>> list_channels(
    std::string_view directory);

// ---- an end explains itself ----------------------------------------------------------------

struct GANTRY_API ChannelExplanation {
  ChannelStatus status;
  Bytes payload = 0;                 ///< That was asked about.
  SendMode mode = SendMode::whole;   ///< How send() would send it.
  std::vector<std::string> because;  ///< Why in that mode.
  Explanation path;                  ///< Who would copy it; without candidates when nobody does.
  std::vector<std::string> waits;    ///< What a send() would wait for now; empty: for nothing.

  [[nodiscard]] std::string text() const;
};

struct GANTRY_API ConsumerExplanation {
  std::string name;
  int producer_pid = 0;
  ProcessState producer_state = ProcessState::unknown;
  SlowConsumer policy = SlowConsumer::block;
  unsigned depth = 0;            ///< Messages it may have unreleased, by what its producer says.
  std::uint64_t unread = 0;      ///< Published to it and not taken.
  std::uint64_t dropped = 0;     ///< Taken back from it before it took them, as far as it looked.
  bool landing = false;          ///< The next one is taken and has not landed whole.
  bool producer_gone = false;    ///< It left or died; what it published can still be received.
  bool ended = false;            ///< The stream ends with what is unread.
  bool producer_sleeps = false;  ///< Waits for a credit.
  std::vector<HeldSlot> held;    ///< Not released; the oldest first.
  Bytes mapped_bytes = 0;        ///< Of the producer's memory.
  std::chrono::nanoseconds spin{};
  std::string broken;  ///< Why nothing of the producer is believed any more; else empty.
  MetricsReport metrics;

  [[nodiscard]] std::string text() const;
};

}  // namespace gantry
