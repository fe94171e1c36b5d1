#pragma once  // engine/thread/scheduler.hpp: which lane is next, and which worker is woken for it.

#include <atomic>
#include <cstdint>
#include <functional>
#include <gantry/types.hpp>
#include <thread>
#include <vector>

#include "core/base/assert.hpp"
#include "core/engine/thread/lane_queue.hpp"
#include "core/engine/thread/thread_engine.hpp"

namespace gantry {

/// Whoever takes a worker out of the scheduler's list of idle ones, under the lock, owes it one
/// wake(), after the lock. [K]: what was done before wake() is seen after park().
class Worker {
 public:
  explicit Worker(unsigned group) noexcept : group_(group) {}

  [[nodiscard]] unsigned group() const noexcept { return group_; }

  /// Runs `body` on a thread of its own at `place`. Signals go to other threads, except those that
  /// a thread raises itself. Errors: `system`.
  [[nodiscard]] Result<void> start(const WorkerPlace& place, std::function<void()> body);
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  /// For a forked child, where the thread does not exist and cannot be joined.
  void forget_thread() noexcept;

  void prepare_to_park() noexcept { awake_.store(0, std::memory_order_relaxed); }  // under the lock
  void park() noexcept;
  void wake() noexcept;

  Worker* next_idle = nullptr;  // the scheduler's

 private:
  unsigned group_;
  std::atomic<std::uint32_t> awake_{1};
  std::thread thread_;
};

/// A lane as the engine's core sees it.
struct LaneEntry {
  LaneEntry(std::size_t depth, LaneProgress& lane_progress)
      : progress(lane_progress), moves(depth, lane_progress) {}

  LaneProgress& progress;
  LaneQueue moves;
  /// Its submitter has begun by itself and has not called for help: the lane is in no list.
  bool is_alone = false;
  /// Threads that still announce what they ended. The lane goes only when there are none. [P]
  std::atomic<unsigned> pins{0};

 private:
  friend class Scheduler;
  static constexpr int kNoGroup = -1;
  int group_ = kNoGroup;  // the group in whose list it is
  LaneEntry* next_ = nullptr;
  LaneEntry* previous_ = nullptr;
};

// Lanes that have something to hand out stand in a list of the group of workers near their next
// move's destination. A lane goes to the end whenever a worker took a unit from it, so each gets
// its turn. A worker whose own list is empty takes from the others. All members are called under
// the engine's lock.
//   I1  A lane stands in a list if and only if its queue has a head and it is not alone, in that of
//       the head's group.
//   I2  A worker is either idle, or looking (it will look at the lists before it becomes idle), or
//       executing and will look then. So nobody has to be woken while there is a looking worker for
//       each lane that has something to hand out; else one worker is woken. A worker that finds
//       something checks this again, so for a large move the workers wake one another, not the
//       submitter.
//   I3  A list is whole: each lane's neighbours know it, and the ends are its first and last.
//   I4  The count of listed lanes is right.
//   I5  An idle worker is in the list of its group, once; the count of idle workers is right.
//   I6  A worker that stops looking had begun to: no more workers are idle or looking than an
//   engine
//       has.
class Scheduler {
 public:
  explicit Scheduler(unsigned groups) : lists_(groups) {}

  /// Keeps I1 after any change of the lane's queue.
  void update(LaneEntry& lane) noexcept;
  void remove(LaneEntry& lane) noexcept;
  /// The lane whose turn it is for a worker of this group; null: there is none. It goes behind all
  /// others.
  [[nodiscard]] LaneEntry* take_turn(unsigned group) noexcept;
  [[nodiscard]] unsigned waiting_lanes() const noexcept { return listed_; }

  void begin_looking() noexcept {
    ++looking_;
    GANTRY_CHECK_INVARIANTS(*this);
  }
  void end_looking() noexcept {
    GANTRY_DEBUG_ASSERT(looking_ > 0);  // I6
    --looking_;
    GANTRY_CHECK_INVARIANTS(*this);
  }
  void become_idle(Worker& worker) noexcept;
  /// Picks the worker to wake, which then counts as looking. Null: there is none, or none is needed
  /// (I2).
  [[nodiscard]] Worker* pick_wake() noexcept;
  /// Picks any idle worker, for the end of the engine.
  [[nodiscard]] Worker* pick_any() noexcept;
  /// True if a worker would begin at once, or as soon as it is awake.
  [[nodiscard]] bool has_free_worker() const noexcept { return looking_ > 0 || idle_ > 0; }

  /// Debug builds only, as GANTRY_CHECK_INVARIANTS. Checks I1 of the lanes in lists, and I3 to I6.
  void check_invariants() const noexcept;

 private:
  friend struct InvariantBreaker<Scheduler>;

  struct List {
    LaneEntry* first = nullptr;
    LaneEntry* last = nullptr;
    Worker* idle = nullptr;  // the last to park is first: its cache is the warmest
  };
  [[nodiscard]] unsigned check_list(int group) const noexcept;
  void append(LaneEntry& lane, int group) noexcept;
  [[nodiscard]] Worker* pop_idle(List& list) noexcept;

  std::vector<List> lists_;
  unsigned listed_ = 0;
  unsigned looking_ = 0;
  unsigned idle_ = 0;
};

}  // namespace gantry
