#pragma once  // gantry/engine.hpp: moves, the engines that execute them, and how to await their
              // end.

#include <atomic>
#include <gantry/shape.hpp>
#include <gantry/types.hpp>
#include <memory>
#include <vector>

namespace gantry {

// ---- what is to be done --------------------------------------------------------------------

/// Which engine executed a move, in the order of the counters in Metrics.
enum class CopyEngine : std::uint8_t {
  inline_,  ///< The CPU of whoever submits or waits.
  thread,   ///< Threads of the engine's own.
  kernel,   ///< The operating system, for stages over pipes.
  dsa       ///< Intel's Data Streaming Accelerator.
};
/// How many there are.
inline constexpr std::size_t kCopyEngines = 4;
[[nodiscard]] GANTRY_API std::string_view to_string(CopyEngine engine) noexcept;

/// Where the destination shall be after the move.
enum class CacheUse : std::uint8_t {
  automatic,    ///< By size: a destination that fits the share of the last-level cache stays in it.
  reader_soon,  ///< A CPU reads it next: leave it in the cache.
  streaming,    ///< Nobody reads it soon, or a device does: go past the cache.
};
[[nodiscard]] GANTRY_API std::string_view to_string(CacheUse use) noexcept;

/// How far a move, or a send, is.
enum class Outcome : std::uint8_t {
  pending,  ///< It has not ended.
  done,     ///< It has ended well.
  failed    ///< It has ended, but not well.
};
[[nodiscard]] GANTRY_API std::string_view to_string(Outcome outcome) noexcept;

/// Why a move failed.
enum class Cause : std::uint8_t {
  none,        ///< It did not fail, or has not ended.
  unreadable,  ///< A source page that is not mapped, not readable, or beyond the end of its file.
  unwritable,  ///< The same for a destination page.
  cancelled,   ///< By Lane::cancel() or Engine::stop().
  device,      ///< The engine's device failed and no other engine could go on.
};
[[nodiscard]] GANTRY_API std::string_view to_string(Cause cause) noexcept;

/// How a move ended and how far it came. Owned by the submitter; it must outlive the move. It is
/// written before the ticket ends.
struct Completion {
  Outcome outcome = Outcome::pending;       ///< How far the move is.
  Cause cause = Cause::none;                ///< Why it failed.
  CopyEngine engine = CopyEngine::inline_;  ///< Who executed it, or the larger part of it.
  CacheUse cache = CacheUse::automatic;     ///< The stores that were used.
  /// Bytes from the front that are done for certain. A failed move may have written some beyond
  /// them.
  Bytes bytes_done = 0;
  std::uintptr_t fault_address = 0;  ///< The byte that could not be read or written; 0: none.
  std::uint64_t helper_cpu_ns = 0;   ///< CPU time that the engine's own threads spent on it.
};

/// A request to an engine. Its ranges must stay valid and its sources unchanged until it has ended.
///   Alignment: any; 64 bytes is quickest. Source and destination must not overlap.
struct GANTRY_API Move {
  /// What is done with which of the ranges below.
  enum class Kind : std::uint8_t {
    copy,     ///< source to destination
    fill,     ///< pattern to destination
    reshape,  ///< source to destination by `plan`; see gantry/shape.hpp
  };
  Kind kind = Kind::copy;                ///< It says which of the fields below count.
  CacheUse cache = CacheUse::automatic;  ///< Where `destination` shall be afterwards.
  bool resident = false;  ///< The caller knows that all pages are present, as in pool blocks.
  std::byte* destination = nullptr;   ///< Where the result is written.
  const std::byte* source = nullptr;  ///< For all but fill.
  Bytes bytes = 0;                    ///< Length of each range; for reshape: of the destination.
  std::uint64_t pattern = 0;          ///< For fill: repeated from the front on, lowest byte first.
  const ReshapePlan* plan = nullptr;  ///< For reshape; it must outlive the move.
  Bytes plan_from = 0;     ///< For reshape: the byte of the plan's destination at `destination`.
  Bytes source_bytes = 0;  ///< For reshape: the length of `source`, which is the whole source.
  Completion* completion = nullptr;  ///< Receives the result; may be null.

  /// A request to copy all of `source`.
  [[nodiscard]] static Move copy(ByteSpan destination, ConstByteSpan source) noexcept;
  /// Sets each byte.
  [[nodiscard]] static Move fill(ByteSpan destination, std::byte value) noexcept;
  /// Repeats eight bytes, the lowest first.
  [[nodiscard]] static Move fill(ByteSpan destination, std::uint64_t pattern) noexcept;
  /// Makes bytes [from, from + destination.size()) of the plan's destination; `source` is always
  /// the whole source. Completion::bytes_done counts bytes of the destination.
  [[nodiscard]] static Move reshape(ByteSpan destination, ConstByteSpan source,
                                    const ReshapePlan& plan, Bytes from = 0) noexcept;
  static Move reshape(ByteSpan, ConstByteSpan, ReshapePlan&&, Bytes = 0) = delete;  // it must
                                                                                    // outlive it

  /// True if it has a source.
  [[nodiscard]] bool reads() const noexcept { return kind != Kind::fill; }
};
/// How many there are.
inline constexpr std::size_t kMoveKinds = 3;
[[nodiscard]] GANTRY_API std::string_view to_string(Move::Kind kind) noexcept;

// ---- lanes ---------------------------------------------------------------------------------

/// A move's place in its lane, counted from 1. A plain value; 64 bits never wrap.
enum class Ticket : std::uint64_t {};

/// What the submitter does next; the policy chooses by it.
enum class SubmitMode : std::uint8_t {
  synchronous,  ///< It waits at once; submit() may begin the move in the calling thread.
  queued,       ///< It submits more or computes, and asks later.
};
[[nodiscard]] GANTRY_API std::string_view to_string(SubmitMode mode) noexcept;

/// How wait() spends its time.
enum class WaitStrategy : std::uint8_t {
  automatic,  ///< Helps with the lane's own moves where that is quicker, else as `hybrid`.
  hybrid,     ///< Sleeps while the predicted end is far, then polls.
  poll,       ///< Never sleeps: least latency, a whole CPU.
  sleep,      ///< Sleeps until woken: least CPU, the latency of a wake-up.
};
[[nodiscard]] GANTRY_API std::string_view to_string(WaitStrategy waiting) noexcept;

/// How many moves a lane takes, and what happens then.
struct LaneOptions {
  std::size_t depth = 64;  ///< Unfinished moves that the lane holds, at most kMaxLaneDepth.
  /// What submit() does when the lane is full.
  enum class Full : std::uint8_t {
    wait,               ///< submit() waits for room.
    refuse,             ///< submit() answers `busy`.
  } full = Full::wait;  ///< Which of the two.
};
/// The most that LaneOptions::depth may be.
inline constexpr std::size_t kMaxLaneDepth = 4096;

/// What would be done with a move, and why. `text()` is for people.
struct GANTRY_API Explanation {
  /// One engine that could take the move.
  struct Candidate {
    std::string engine;                    ///< Engine::name().
    bool possible = true;                  ///< False: it cannot take this move.
    std::chrono::nanoseconds predicted{};  ///< For this move and submit mode, by the calibration.
    std::string why;                       ///< Why impossible, or what adds to the prediction.
  };
  CopyEngine engine = CopyEngine::inline_;  ///< Who would execute the move.
  CacheUse cache = CacheUse::automatic;     ///< The stores that would be used.
  WaitStrategy waiting =
      WaitStrategy::automatic;  ///< What wait() would do: poll, hybrid, or help (automatic).
  std::chrono::nanoseconds predicted{};  ///< By `engine`.
  std::vector<Candidate> candidates;     ///< All that were weighed, that one included.
  std::vector<std::string> reasons;      ///< Why it would be so; one line each.

  /// The same for people, one line for each reason.
  [[nodiscard]] std::string text() const;
};

/// One submitter's queue. Its moves may run at the same time and end in
/// the order of their tickets; moves of different lanes do not wait for each other. Any thread may
/// call every member. The destructor waits for the moves that the lane has taken.
class GANTRY_API Lane {
 public:
  Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  virtual ~Lane() = default;

  /// Takes all moves of the batch or none. Returns the ticket of the last one; the others have the
  /// numbers before it. An empty batch returns the ticket of the last move before. Errors:
  /// `invalid_argument` (null or overlapping ranges, with the addresses; a batch beyond the lane's
  /// depth), `busy` (full, with Full::refuse), `closed` (the engine was stopped).
  [[nodiscard]] virtual Result<Ticket> submit(std::span<const Move> batch,
                                              SubmitMode mode = SubmitMode::queued) = 0;
  [[nodiscard]] Result<Ticket> submit(const Move& move, SubmitMode mode = SubmitMode::queued) {
    return submit({&move, 1}, mode);
  }

  /// Does bounded work towards ending moves in the calling thread; returns how many ended.
  virtual std::size_t poll() = 0;

  /// Remembers `failed` for the latest 1024 failures of a lane; Completion has no such limit.
  [[nodiscard]] virtual Outcome outcome(Ticket ticket) const noexcept = 0;

  /// Waits for one move and all before it; answers `pending` only after `deadline`. A ticket that
  /// was never given is `failed` at once.
  [[nodiscard]] virtual Outcome wait(Ticket ticket, Deadline deadline = Deadline::never(),
                                     WaitStrategy waiting = WaitStrategy::automatic) = 0;

  /// Ends moves that have not begun as `cancelled`; moves that have begun stop soon, and say how
  /// far they came. Returns at once.
  virtual void cancel() noexcept = 0;

  /// The lane's eventfd, for loops on poll() or epoll; readable when moves have ended since it was
  /// last read. Errors: `system`.
  [[nodiscard]] virtual Result<int> event_descriptor() = 0;

  /// What the lane's engine would do with such a move now.
  [[nodiscard]] virtual Explanation explain(const Move& move,
                                            SubmitMode mode = SubmitMode::queued) const = 0;
};

// ---- engines -------------------------------------------------------------------------------

/// What an engine can do.
struct Capabilities {
  bool moves_itself = false;      ///< Moves go on without poll() by their submitter.
  bool uses_callers_cpu = true;   ///< A move takes the submitter's CPU time.
  bool cache_control = true;      ///< Follows Move::cache.
  std::vector<Move::Kind> kinds;  ///< Executed by the engine itself; others by the caller's CPU.
};

/// How much an engine takes at a time.
struct Limits {
  Bytes max_move_bytes = 0;   ///< Most bytes of a request to the device; larger moves are split.
  std::size_t max_batch = 0;  ///< Most requests handed over at once. 0: no limit.
  Bytes alignment = 1;        ///< The quickest alignment.
};

/// Time of a move when nothing else delays it: start + bytes / rate.
struct GANTRY_API Cost {
  std::chrono::nanoseconds start{};  ///< What each move takes, however small.
  double bytes_per_ns = 1;           ///< The rate of its bytes.
  /// The estimate for so many bytes.
  [[nodiscard]] std::chrono::nanoseconds of(Bytes bytes) const noexcept {
    return start + std::chrono::nanoseconds(
                       static_cast<std::int64_t>(static_cast<double>(bytes) / bytes_per_ns));
  }
};

/// What an engine has done since it was built.
struct EngineReport {
  /// The moves that one way of executing them took.
  struct Path {
    std::uint64_t moves = 0;  ///< Moves ended, failures included.
    std::uint64_t bytes = 0;  ///< Bytes done.
  };
  std::uint64_t moves = 0;          ///< Moves ended, failures included.
  std::uint64_t bytes = 0;          ///< Bytes done, those of failed moves included.
  std::uint64_t failed = 0;         ///< Moves that failed, for whatever cause.
  std::uint64_t helper_cpu_ns = 0;  ///< CPU time of the engine's own threads.
  std::uint64_t streamed = 0;       ///< Moves done with stores past the cache.
  std::uint64_t helped_bytes = 0;   ///< Bytes done by waiters on behalf of the engine.
  Path by_engine[kCopyEngines];     ///< By executing engine; for a single engine all in one, except
                                    ///< what it passed on.
};

/// Executes moves. Any thread may call every member.
class GANTRY_API Engine {
 public:
  /// What becomes of moves that were taken and not begun.
  enum class Stop : std::uint8_t {
    drain,   ///< Submitted moves end first.
    cancel,  ///< As Lane::cancel() on every lane.
  };

  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  /// As Runtime::engine() takes it.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// What it can do on this machine.
  [[nodiscard]] virtual Capabilities capabilities() const = 0;
  /// How much it takes at a time.
  [[nodiscard]] virtual Limits limits() const noexcept = 0;
  /// Learned from the engine's moves; before the first, a published or calibrated figure.
  [[nodiscard]] virtual Cost cost() const noexcept = 0;
  /// Bytes taken on and not yet done.
  [[nodiscard]] virtual Bytes load() const noexcept = 0;

  /// Opens a lane, which keeps its engine alive. Errors: `invalid_argument` (depth 0 or above
  /// kMaxLaneDepth), `closed` (stopped), `out_of_memory`.
  [[nodiscard]] virtual Result<std::unique_ptr<Lane>> open_lane(
      const LaneOptions& options = {}) = 0;

  /// Stops for good. When it returns every move has ended; later ones are refused.
  virtual void stop(Stop how) noexcept = 0;

  /// What it has done so far.
  [[nodiscard]] virtual EngineReport report() const noexcept = 0;
};

// ---- without an engine ---------------------------------------------------------------------

/// Copies in the calling thread without a ticket, as memcpy() but past the cache where that is
/// quicker. Ranges must not overlap. Faults are not caught.
class GANTRY_API Copier {
 public:
  /// Copies of `streaming_from` bytes or more, and of 16 KiB at least, go past the cache.
  explicit constexpr Copier(Bytes streaming_from) noexcept : streaming_from_(streaming_from) {}

  /// Copies in the calling thread, by the size's kind of store. The ranges do not overlap.
  void operator()(void* destination, const void* source, Bytes bytes) const noexcept {
    if (bytes < kNeverStreamed) [[likely]]
      __builtin_memcpy(destination, source, bytes);
    else
      slow_copy(destination, source, bytes);
  }
  /// Past the cache at any size.
  static void stream(void* destination, const void* source, Bytes bytes) noexcept;
  /// The size from which on it goes past the cache.
  [[nodiscard]] Bytes streaming_from() const noexcept { return streaming_from_; }

 private:
  // So small that nobody wants it past the cache. A constant, since loading a variable would be
  // felt.
  static constexpr Bytes kNeverStreamed = Bytes{16} << 10;
  void slow_copy(void* destination, const void* source, Bytes bytes) const noexcept;

  Bytes streaming_from_;
};

/// Whether an engine works on this machine.
struct EngineStatus {
  std::string name;     ///< Of the engine, or of what else is asked about.
  bool usable = false;  ///< True: it works for this process, now.
  std::string why;      ///< What the engine runs on, or why it cannot run.
  std::string mend;     ///< How to make it usable; empty when it is.
};

}  // namespace gantry
