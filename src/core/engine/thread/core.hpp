#pragma once  // engine/thread/core.hpp: what an engine and its lanes share: workers, turns,
              // counters.

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/base/os/fork.hpp"
#include "core/engine/engine_counters.hpp"
#include "core/engine/thread/scheduler.hpp"
#include "core/engine/thread/thread_engine.hpp"

namespace gantry {

/// Workers by NUMA node. Groups are counted from 0, in the order in which their nodes first appear.
/// A plain value.
class NodeGroups {
 public:
  /// The kernel's number of the node that holds the page at `address`; negative: unknown.
  using NodeOf = int (*)(const void* address) noexcept;
  static int node_of_page(const void* address) noexcept;

  explicit NodeGroups(std::span<const WorkerPlace> places, NodeOf node_of = node_of_page);

  [[nodiscard]] unsigned count() const noexcept { return static_cast<unsigned>(nodes_.size()); }
  /// 0 for a node without workers.
  [[nodiscard]] unsigned of_node(int node) const noexcept;
  /// The group for a move: by the node of its destination's first page. The kernel is asked only
  /// for large moves, and only where there is a choice; small ones go to the node that their
  /// submitter runs on.
  [[nodiscard]] unsigned near(const Move& move) const noexcept;

  static constexpr Bytes kAskedFrom = Bytes{4} << 20;  // some microseconds in a millisecond

 private:
  std::vector<int> nodes_;
  NodeOf node_of_;
};

/// How quick the workers have lately been. Written under the engine's lock, read by any thread.
/// Relaxed: each figure stands by itself.
class RateEstimate {
 public:
  /// Learns from one worker's unit. Short units are ignored, since they tell more of the clock than
  /// of the memory. `shared`: a waiter helped meanwhile, which a sleeping waiter cannot count on.
  void learn_unit(Bytes bytes, std::uint64_t ns, bool shared) noexcept {
    if (bytes < kTelling || ns == 0 || (shared && seen_alone_)) return;
    seen_alone_ = seen_alone_ || !shared;
    const double old = rate();
    // A worker that lost its CPU in the middle says little about memory.
    const double seen = std::clamp(static_cast<double>(bytes) / static_cast<double>(ns),
                                   old / kMostChange, old * kMostChange);
    rate_.store(old + (seen - old) / kMemory, std::memory_order_relaxed);
  }
  /// Learns the time from submit() to an idle engine until a worker began.
  void learn_start(std::uint64_t ns) noexcept {
    const std::uint64_t old = start_ns(), seen = std::min(ns, old * 4);
    start_ns_.store(seen > old ? old + (seen - old) / 8 : old - (old - seen) / 8,
                    std::memory_order_relaxed);
  }

  [[nodiscard]] double rate() const noexcept { return rate_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t start_ns() const noexcept {
    return start_ns_.load(std::memory_order_relaxed);
  }
  /// Bytes that are done before a worker would be awake: not worth waking anybody for.
  [[nodiscard]] Bytes wake_up_bytes() const noexcept {
    return static_cast<Bytes>(rate() * static_cast<double>(start_ns()));
  }
  /// The largest unit for which another lane waits no longer than kUnitNs.
  [[nodiscard]] Bytes unit_bytes() const noexcept {
    const auto bytes = static_cast<Bytes>(rate() * kUnitNs);
    return std::clamp(bytes / kLeastUnit * kLeastUnit, kLeastUnit, kUnitBytes);
  }

  static constexpr Bytes kLeastUnit = Bytes{64} << 10;

 private:
  static constexpr double kUnitNs = 80'000;
  static constexpr double kMostChange = 4;
  static constexpr double kMemory = 8;  // samples
  static constexpr Bytes kTelling = Bytes{32} << 10;

  std::atomic<double> rate_{8};  // bytes a nanosecond, of one worker
  std::atomic<std::uint64_t> start_ns_{10'000};
  bool seen_alone_ = false;
};

// The engine and each lane hold it; the workers end with the last of them. One lock is held for the
// bookkeeping of a unit, never while bytes are moved, somebody is woken or sleeps (except at the
// end).
//   I1  Every change of a lane's queue is made by change(), which keeps counters and turns right.
//   I2  In a forked child nothing here is touched but atomics: the lock may be held for ever, and
//       the workers are not there.
class ThreadCore {
 public:
  [[nodiscard]] static Result<std::shared_ptr<ThreadCore>> make(
      const ThreadOptions& options, NodeGroups::NodeOf node_of = NodeGroups::node_of_page);
  ThreadCore(const ThreadOptions& options, NodeGroups::NodeOf node_of);
  ~ThreadCore();
  ThreadCore(const ThreadCore&) = delete;
  ThreadCore& operator=(const ThreadCore&) = delete;

  /// False in a forked child's copy.
  [[nodiscard]] bool is_here() const noexcept { return fork_guard_.is_this(); }
  [[nodiscard]] CacheUse cache_for(const Move& move) const noexcept {
    return resolve_cache(move, streaming_from_);
  }
  [[nodiscard]] unsigned near(const Move& move) const noexcept { return groups_.near(move); }

  /// Errors: `closed`.
  [[nodiscard]] Result<void> open(LaneEntry& lane);
  /// Call it when all its moves have ended.
  void close(LaneEntry& lane) noexcept;

  /// Adds the staged moves. `alone`: wakes nobody; the caller goes on with begin_alone().
  void publish(LaneEntry& lane, std::size_t count, bool alone) noexcept;
  /// Begins a move that its submitter waits for in the submitter's thread, and calls a worker when
  /// that gains more time than a worker takes to come: bytes in this CPU's own caches are soonest
  /// done by it alone. Returns when the lane has nothing left to hand out, a worker was called, or
  /// a millisecond is over.
  void begin_alone(LaneEntry& lane) noexcept;

  enum class Help : std::uint8_t { always, when_quicker };
  /// Executes one unit of the lane's moves up to `last` in the calling thread and returns how many
  /// moves ended by that. Nothing: there is none to take, or workers do it quicker.
  std::optional<std::size_t> help(LaneEntry& lane, Ticket last, Help when) noexcept;
  void cancel(LaneEntry& lane) noexcept;

  [[nodiscard]] std::chrono::nanoseconds left(const LaneEntry& lane, Ticket ticket) const noexcept;
  [[nodiscard]] Cost cost() const noexcept;
  [[nodiscard]] Bytes load() const noexcept { return load_.load(std::memory_order_relaxed); }
  [[nodiscard]] EngineReport report() const noexcept { return counters_.report(); }

  // For tests: wake-ups that were paid for.
  [[nodiscard]] std::uint64_t wake_ups() const noexcept {
    return wake_ups_.load(std::memory_order_relaxed);
  }

 private:
  /// What the holder of the lock owes others once it has let it go. Plain; settled by pay().
  struct PendingWakeups {
    LaneEntry* announce = nullptr;
    Worker* wake = nullptr;
  };
  struct Ran {
    Executed executed;
    std::uint64_t ns = 0;
  };
  using Lock = std::unique_lock<std::mutex>;

  [[nodiscard]] Result<void> start(const ThreadOptions& options);
  void work(Worker& self) noexcept;
  void work_on(LaneEntry& lane, Lock& lock, PendingWakeups& pending_wakeups,
               std::uint64_t& cpu_ns) noexcept;
  void look_for_work(Worker& self, Lock& lock, PendingWakeups& pending_wakeups,
                     std::uint64_t& cpu_ns) noexcept;
  /// Counts and returns the CPU time of the calling worker since the last call.
  std::uint64_t count_cpu(std::uint64_t& last_ns) noexcept;
  void end_workers() noexcept;

  template <class Change>
  std::size_t change(LaneEntry& lane, Change change) noexcept;
  [[nodiscard]] Unit take(LaneEntry& lane, Ticket last) noexcept;
  std::size_t finish(LaneEntry& lane, const Unit& unit, const Ran& ran,
                     std::uint64_t cpu_ns) noexcept;
  [[nodiscard]] Ran run(const Unit& unit) const noexcept;
  void pay(PendingWakeups& pending_wakeups) noexcept;
  std::size_t join_others(LaneEntry& lane) noexcept;
  [[nodiscard]] bool is_worth_calling(Bytes left, const Unit& unit, const Ran& ran) const noexcept;
  [[nodiscard]] bool is_worth_helping(const LaneSlot& head) const noexcept;

  const ForkGuard fork_guard_;
  const NodeGroups groups_;
  const Bytes streaming_from_;
  const double helping_gain_;
  RateEstimate rate_;
  EngineCounters counters_;
  std::atomic<Bytes> load_{0};              // written under the lock; relaxed: a figure by itself
  std::atomic<std::uint64_t> wake_ups_{0};  // relaxed, as above
  // lanes with something to hand out: a hint for threads that look for work
  std::atomic<unsigned> waiting_{0};

  mutable std::mutex mutex_;  // guards the following, and the queues of all lanes
  Scheduler scheduler_;
  std::vector<LaneEntry*> lanes_;
  std::uint64_t unended_ = 0;        // moves
  unsigned busy_lanes_ = 0;          // with moves that have not ended
  unsigned helpers_ = 0;             // executing now
  std::uint64_t began_idle_ns_ = 0;  // when a move came to an idle engine; 0: somebody began it
  bool quit_ = false;

  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace gantry
