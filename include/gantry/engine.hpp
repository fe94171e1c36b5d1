#pragma once  // gantry/engine.hpp: moves, the engines that execute them, waiting, and costs.

#include <array>
#include <atomic>
#include <gantry/types.hpp>
#include <memory>
#include <optional>
#include <vector>

namespace gantry {

// ---- results and options of moves ----------------------------------------------------------

/// The engine that executed a move, in the order of the counters in Metrics.
enum class CopyEngine : std::uint8_t {
  inline_,  ///< The CPU of the submitting or waiting thread.
  thread,   ///< Threads that belong to the engine.
  kernel,   ///< The operating system, for stages over pipes.
  dsa       ///< Intel's Data Streaming Accelerator.
};
/// Number of copy engines.
inline constexpr std::size_t kCopyEngines = 4;
[[nodiscard]] GANTRY_API std::string_view to_string(CopyEngine engine) noexcept;

/// Where the destination should be cached after the move.
enum class CacheUse : std::uint8_t {
  automatic,    ///< By size: a destination that fits its share of the last-level cache stays in the
                ///< cache.
  reader_soon,  ///< A CPU reads the destination next: leave it in the cache.
  streaming,    ///< No CPU reads the destination soon, or a device does: bypass the cache.
};
[[nodiscard]] GANTRY_API std::string_view to_string(CacheUse use) noexcept;

/// Progress of a move or a send.
enum class Outcome : std::uint8_t {
  pending,  ///< Not ended.
  done,     ///< Ended successfully.
  failed    ///< Ended with an error.
};
[[nodiscard]] GANTRY_API std::string_view to_string(Outcome outcome) noexcept;

/// Reason for a move's failure.
enum class Cause : std::uint8_t {
  none,        ///< The move did not fail, or has not ended.
  unreadable,  ///< A source page is not mapped, not readable, or beyond the end of its file.
  unwritable,  ///< A destination page is not mapped, not writable, or beyond the end of its file.
  cancelled,   ///< Ended by Lane::cancel().
  device,      ///< The engine's device failed, and no other engine could continue.
};
[[nodiscard]] GANTRY_API std::string_view to_string(Cause cause) noexcept;

/// Result of a move. The submitter owns the result, which must outlive the move. Written before the
/// move counts as ended.
struct Completion {
  Outcome outcome = Outcome::pending;       ///< Progress of the move.
  Cause cause = Cause::none;                ///< Reason for a failure.
  CopyEngine engine = CopyEngine::inline_;  ///< The engine that executed the move, or most of it.
  CacheUse cache = CacheUse::automatic;     ///< The kind of stores that was used.
  /// Bytes from the front that are certainly done. A failed move may have written bytes beyond
  /// them.
  Bytes bytes_done = 0;
  /// Address of the byte that could not be read or written; 0: none.
  std::uintptr_t fault_address = 0;
  std::uint64_t helper_cpu_ns = 0;  ///< CPU time that the engine's own threads spent on the move.
};

/// A request to an engine. Its ranges must stay valid, and its sources unchanged, until it has
/// ended. Source and destination must not overlap. Any alignment is allowed; 64 bytes is fastest.
struct GANTRY_API Move {
  /// The operation.
  enum class Kind : std::uint8_t {
    copy,     ///< source to destination
    fill,     ///< pattern to destination
    reshape,  ///< source to destination by `plan`; see gantry/shape.hpp
  };
  Kind kind = Kind::copy;                ///< Determines which of the fields below are used.
  CacheUse cache = CacheUse::automatic;  ///< Where `destination` should be cached afterwards.
  bool resident = false;  ///< The caller guarantees that all pages are present, as in pool blocks.
  std::byte* destination = nullptr;   ///< Memory for the result.
  const std::byte* source = nullptr;  ///< Used by copy and reshape.
  Bytes bytes = 0;                    ///< Length of each range; for reshape: of the destination.
  /// For fill: eight bytes, repeated from the front, lowest byte first.
  std::uint64_t pattern = 0;
  const ReshapePlan* plan = nullptr;  ///< For reshape; must outlive the move.
  Bytes plan_from = 0;     ///< For reshape: offset of `destination` within the plan's destination.
  Bytes source_bytes = 0;  ///< For reshape: length of `source`, which is the whole source.
  Completion* completion = nullptr;  ///< Receives the result; may be null.

  /// A request to copy all of `source`.
  [[nodiscard]] static Move copy(ByteSpan destination, ConstByteSpan source) noexcept;
  /// A request to set each byte to `value`.
  [[nodiscard]] static Move fill(ByteSpan destination, std::byte value) noexcept;
  /// A request to repeat the eight bytes of `pattern`, lowest byte first.
  [[nodiscard]] static Move fill(ByteSpan destination, std::uint64_t pattern) noexcept;
  /// A request to make bytes [from, from + destination.size()) of the plan's destination; `source`
  /// is always the whole source. Completion::bytes_done counts bytes of the destination. `plan`
  /// must outlive the move.
  [[nodiscard]] static Move reshape(ByteSpan destination, ConstByteSpan source,
                                    const ReshapePlan& plan, Bytes from = 0) noexcept;
  /// Deleted, because a temporary plan would not outlive the move.
  static Move reshape(ByteSpan, ConstByteSpan, ReshapePlan&&, Bytes = 0) = delete;

  /// True if the move has a source.
  [[nodiscard]] bool reads() const noexcept { return kind != Kind::fill; }
};
/// Number of kinds of moves.
inline constexpr std::size_t kMoveKinds = 3;
[[nodiscard]] GANTRY_API std::string_view to_string(Move::Kind kind) noexcept;

// ---- lanes ---------------------------------------------------------------------------------

/// Number, from 1, of a move in its lane, or of a send or a transfer. A plain value; never wraps.
enum class Ticket : std::uint64_t {};

/// The submitter's next action; a hint for the choice of an engine.
enum class SubmitMode : std::uint8_t {
  synchronous,  ///< The submitter waits at once; submit() may begin the move in the calling thread.
  queued,       ///< The submitter submits more or computes, and waits later.
};
[[nodiscard]] GANTRY_API std::string_view to_string(SubmitMode mode) noexcept;

/// How wait() spends its time.
enum class WaitStrategy : std::uint8_t {
  automatic,  ///< Helps with the lane's own moves if that is faster, otherwise as `hybrid`.
  hybrid,     ///< Sleeps while the predicted end is far, then polls.
  poll,       ///< Never sleeps: lowest latency, uses a whole CPU.
  sleep,      ///< Sleeps until woken: lowest CPU use, adds the latency of a wake-up.
};
[[nodiscard]] GANTRY_API std::string_view to_string(WaitStrategy waiting) noexcept;

/// Capacity of a lane, and its behaviour when full.
struct LaneOptions {
  std::size_t depth = 64;  ///< Largest number of unfinished moves in the lane, 1 to kMaxLaneDepth.
  /// Behaviour of submit() when the lane is full.
  enum class Full : std::uint8_t {
    wait,               ///< submit() waits for room.
    refuse,             ///< submit() fails with `busy`.
  } full = Full::wait;  ///< Behaviour of submit() when the lane is full.
};
/// Upper limit of LaneOptions::depth.
inline constexpr std::size_t kMaxLaneDepth = 4096;

/// How a move would be executed, and why. `text()` is for people.
struct GANTRY_API Explanation {
  /// One engine that was considered for the move.
  struct Candidate {
    std::string engine;    ///< Engine::name().
    bool possible = true;  ///< False: this engine cannot take the move.
    /// Predicted time for this move and submit mode, by the calibration.
    std::chrono::nanoseconds predicted{};
    std::string why;  ///< Reason if impossible; otherwise additions to the prediction.
  };
  CopyEngine engine = CopyEngine::inline_;  ///< The engine that would execute the move.
  CacheUse cache = CacheUse::automatic;     ///< The kind of stores that would be used.
  WaitStrategy waiting =
      WaitStrategy::automatic;  ///< Behaviour of wait(): poll, hybrid, or help (automatic).
  std::chrono::nanoseconds predicted{};  ///< Predicted time on `engine`.
  std::vector<Candidate> candidates;     ///< All engines that were considered, including `engine`.
  std::vector<std::string> reasons;      ///< Reasons for the choice; one line each.

  /// The explanation for people, one line for each reason.
  [[nodiscard]] std::string text() const;
};

/// One submitter's queue. Its moves may run at the same time, but end in the order of their
/// tickets; moves of different lanes do not wait for each other. Any thread may call every member.
/// The destructor waits for the moves that the lane has taken.
class GANTRY_API Lane {
 public:
  Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  virtual ~Lane() = default;

  /// Takes all moves of the batch or none. Returns the ticket of the last move; the other moves
  /// have the numbers before it. An empty batch returns the ticket of the latest move. Errors:
  /// `invalid_argument` (null or overlapping ranges, with the addresses; a batch beyond the lane's
  /// depth), `busy` (full, with Full::refuse), `closed` (opened before fork()).
  [[nodiscard]] virtual Result<Ticket> submit(std::span<const Move> batch,
                                              SubmitMode mode = SubmitMode::queued) = 0;
  [[nodiscard]] Result<Ticket> submit(const Move& move, SubmitMode mode = SubmitMode::queued) {
    return submit({&move, 1}, mode);
  }

  /// Does bounded work on unfinished moves in the calling thread; returns the number of moves that
  /// ended.
  virtual std::size_t poll() = 0;

  /// Progress of a move. `failed` is kept for the latest 1024 failures of a lane; a Completion is
  /// kept without limit.
  [[nodiscard]] virtual Outcome outcome(Ticket ticket) const noexcept = 0;

  /// Waits for one move and all moves before it; returns `pending` only after `deadline`. An
  /// unknown ticket is `failed` at once.
  [[nodiscard]] virtual Outcome wait(Ticket ticket, Deadline deadline = Deadline::never(),
                                     WaitStrategy waiting = WaitStrategy::automatic) = 0;

  /// Ends moves that have not begun as `cancelled`; moves that have begun stop soon, and their
  /// completions report the number of bytes done. Returns at once.
  virtual void cancel() noexcept = 0;

  /// The lane's eventfd, for loops on poll() or epoll; readable when moves have ended since it was
  /// last read. Errors: `system`.
  [[nodiscard]] virtual Result<int> event_descriptor() = 0;

  /// How the lane's engine would execute such a move now.
  [[nodiscard]] virtual Explanation explain(const Move& move,
                                            SubmitMode mode = SubmitMode::queued) const = 0;
};

// ---- engines -------------------------------------------------------------------------------

/// Abilities of an engine.
struct Capabilities {
  bool moves_itself = false;  ///< Moves make progress without poll() by their submitter.
  /// Kinds that the engine itself executes; the caller's CPU executes the others.
  std::vector<Move::Kind> kinds;
  Bytes alignment = 1;  ///< Fastest alignment, in bytes.
};

/// Time of an undisturbed move: start + bytes / rate.
struct GANTRY_API Cost {
  std::chrono::nanoseconds start{};  ///< Fixed time of each move.
  double bytes_per_ns = 1;           ///< Rate for the bytes.
  /// Estimated time for `bytes`.
  [[nodiscard]] std::chrono::nanoseconds of(Bytes bytes) const noexcept {
    return start + std::chrono::nanoseconds(
                       static_cast<std::int64_t>(static_cast<double>(bytes) / bytes_per_ns));
  }
};

/// Counters of an engine since it was built.
struct EngineReport {
  /// Counters of the moves that one engine executed.
  struct Path {
    std::uint64_t moves = 0;  ///< Moves ended, failures included.
    std::uint64_t bytes = 0;  ///< Bytes done.
  };
  std::uint64_t moves = 0;          ///< Moves ended, failures included.
  std::uint64_t bytes = 0;          ///< Bytes done, including those of failed moves.
  std::uint64_t failed = 0;         ///< Moves that failed, for any cause.
  std::uint64_t helper_cpu_ns = 0;  ///< CPU time of the engine's own threads.
  std::uint64_t streamed = 0;       ///< Moves done with stores that bypass the cache.
  std::uint64_t helped_bytes = 0;   ///< Bytes done by waiting threads for the engine.
  /// By executing engine. A single engine counts everything in its own entry, except moves that it
  /// gave to another engine.
  Path by_engine[kCopyEngines];
};

/// Executes moves. Any thread may call every member.
class GANTRY_API Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  /// Name for Runtime::engine().
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Abilities on this machine.
  [[nodiscard]] virtual Capabilities capabilities() const = 0;
  /// Bytes accepted and not yet done.
  [[nodiscard]] virtual Bytes load() const noexcept = 0;

  /// Opens a lane, which keeps its engine alive. Errors: `invalid_argument` (depth 0 or above
  /// kMaxLaneDepth), `closed` (a forked child of the engine's process), `out_of_memory`.
  [[nodiscard]] virtual Result<std::unique_ptr<Lane>> open_lane(
      const LaneOptions& options = {}) = 0;

  /// Counters so far.
  [[nodiscard]] virtual EngineReport report() const noexcept = 0;
};

// ---- without an engine ---------------------------------------------------------------------

/// Copies in the calling thread without a ticket, like memcpy(), but bypasses the cache where that
/// is faster. Ranges must not overlap. Does not catch faults.
class GANTRY_API Copier {
 public:
  /// Copies of at least `streaming_from` bytes, but not less than 16 KiB, bypass the cache.
  explicit constexpr Copier(Bytes streaming_from) noexcept : streaming_from_(streaming_from) {}

  /// Copies `bytes` in the calling thread. The ranges must not overlap.
  void operator()(void* destination, const void* source, Bytes bytes) const noexcept {
    if (bytes < kNeverStreamed) [[likely]]
      __builtin_memcpy(destination, source, bytes);
    else
      slow_copy(destination, source, bytes);
  }
  /// Copies at any size, bypassing the cache.
  static void stream(void* destination, const void* source, Bytes bytes) noexcept;
  /// Size from which copies bypass the cache.
  [[nodiscard]] Bytes streaming_from() const noexcept { return streaming_from_; }

 private:
  // Copies below this size never profit from bypassing the cache. A constant, since loading a
  // variable would cost measurable time.
  static constexpr Bytes kNeverStreamed = Bytes{16} << 10;
  void slow_copy(void* destination, const void* source, Bytes bytes) const noexcept;

  Bytes streaming_from_;
};

/// Whether an engine, a device, a codec, a kind of link or the like works on this machine.
struct EngineStatus {
  std::string name;     ///< Name of the engine, or of another object that is listed.
  bool usable = false;  ///< True: usable by this process now.
  std::string why;      ///< The basis on which it works, or the reason why it does not.
  std::string mend;     ///< How to make it usable; empty if it is usable.
};

// ---- costs of a machine's engines ---------------------------------------------------------------

/// Cost of a copy of one size by an engine on this machine; measured medians.
struct CostPoint {
  Bytes bytes = 0;            ///< Size of the copy.
  double synchronous_ns = 0;  ///< Time from submit() to the end, with the submitter waiting.
  double queued_ns = 0;       ///< Time per move while 16 are queued (fewer if large).
  double caller_ns = 0;       ///< CPU time of the submitter for a queued move.
};

/// Measured costs of one engine.
struct EngineCosts {
  std::string engine;             ///< Engine::name().
  bool simulated = false;         ///< Measured on a simulated device.
  std::vector<CostPoint> points;  ///< Sorted by rising size.
  /// Costs of reshapes, by ReshapeClass and bytes of the destination. Empty: not measured.
  std::array<std::vector<CostPoint>, kReshapeClasses> reshapes{};
};

/// The result of `gantry calibrate`, kept under the user's cache folder.
struct Calibration {
  std::string machine;  ///< Scope of the numbers: CPU model, CPUs, caches, kernel, version, build.
  /// Origin of the numbers.
  enum class Source : std::uint8_t {
    defaults,                   ///< Not measured: estimates from the cache sizes.
    quick,                      ///< Measured at first use, in under a second.
    full,                       ///< Measured by `gantry calibrate`.
  } source = Source::defaults;  ///< Origin of the numbers that follow.
  Bytes streaming_from = 0;     ///< Size from which copies are faster bypassing the cache. 0: none.
  Bytes cache_share = 0;        ///< Bytes that an early reader still finds in the last-level cache.
  double helping_gain = 1;  ///< Rate of worker and waiter together, relative to the worker alone.
  std::vector<EngineCosts> engines;  ///< Engines that were measured.
};
[[nodiscard]] GANTRY_API std::string_view to_string(Calibration::Source source) noexcept;

/// Smallest size such that, at every measured size from it on, the engine is the better choice for
/// copies in that submit mode. Synchronous: it ends copies sooner than `inline`. Queued: it ends
/// copies no later and frees the caller. Empty if there is no such size, or if either engine was
/// not measured.
[[nodiscard]] GANTRY_API std::optional<Bytes> break_even(const Calibration& calibration,
                                                         std::string_view engine, SubmitMode mode);

}  // namespace gantry
