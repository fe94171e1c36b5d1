#include "core/engine/thread/core.hpp"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/clock.hpp"
#include "core/base/futex.hpp"
#include "core/base/os/cpu.hpp"
#include "core/base/result.hpp"

namespace gantry {
namespace {

constexpr double kWorthHelping = 1.1;  // below, the waiter's CPU gains next to nothing
// A worker looks for more before it parks, for about as long as being woken would take.
constexpr std::uint64_t kLookNs = 40'000;
constexpr int kLooks = 16;  // between two readings of the clock
constexpr Ticket kAny{std::numeric_limits<std::uint64_t>::max()};

}  // namespace

// ---- where workers are ---------------------------------------------------------------------

NodeGroups::NodeGroups(std::span<const WorkerPlace> places, NodeOf node_of) : node_of_(node_of) {
  for (const WorkerPlace& place : places)
    if (std::ranges::find(nodes_, place.node) == nodes_.end()) nodes_.push_back(place.node);
}

int NodeGroups::node_of_page(const void* address) noexcept {
  int node = -1;
  const long answer =
      ::syscall(SYS_get_mempolicy, &node, nullptr, 0, address, MPOL_F_NODE | MPOL_F_ADDR);
  return answer == 0 ? node : -1;
}

unsigned NodeGroups::of_node(int node) const noexcept {
  const auto found = std::ranges::find(nodes_, node);
  return found == nodes_.end() ? 0 : static_cast<unsigned>(found - nodes_.begin());
}

unsigned NodeGroups::near(const Move& move) const noexcept {
  if (nodes_.size() == 1) return 0;
  if (move.bytes >= kAskedFrom) return of_node(node_of_(move.destination));
  unsigned cpu = 0, node = 0;
  return ::getcpu(&cpu, &node) == 0 ? of_node(static_cast<int>(node)) : 0;
}

// ---- beginning and end ---------------------------------------------------------------------

ThreadCore::ThreadCore(const ThreadOptions& options, NodeGroups::NodeOf node_of)
    : groups_(options.workers, node_of),
      streaming_from_(options.streaming_from != 0 ? options.streaming_from
                                                  : std::numeric_limits<Bytes>::max()),
      helping_gain_(options.helping_gain),
      scheduler_(groups_.count()) {}

Result<std::shared_ptr<ThreadCore>> ThreadCore::make(const ThreadOptions& options,
                                                     NodeGroups::NodeOf node_of) {
  return guarded([&]() -> Result<std::shared_ptr<ThreadCore>> {
    auto core = std::make_shared<ThreadCore>(options, node_of);
    GANTRY_TRY(core->start(options));
    return core;
  });
}

Result<void> ThreadCore::start(const ThreadOptions& options) {
  workers_.reserve(options.workers.size());
  for (const WorkerPlace& place : options.workers) {
    workers_.push_back(std::make_unique<Worker>(groups_.of_node(place.node)));
    Worker& worker = *workers_.back();
    GANTRY_TRY(worker.start(place, [this, &worker] { work(worker); }));
  }
  return {};
}

ThreadCore::~ThreadCore() {
  if (is_here())
    end_workers();
  else
    for (auto& worker : workers_) worker->forget_thread();  // I2
}

void ThreadCore::end_workers() noexcept {
  Lock lock(mutex_);
  quit_ = true;
  for (Worker* idle = scheduler_.pick_any(); idle != nullptr; idle = scheduler_.pick_any())
    idle->wake();
  lock.unlock();
  for (auto& worker : workers_) worker->join();
}

// ---- lanes ---------------------------------------------------------------------------------

// Under the lock. A caller that gets a result above 0 owes an announcement, for which the lane is
// pinned.
template <class Change>
std::size_t ThreadCore::change(LaneEntry& lane, Change change) noexcept {
  const Bytes undone = lane.moves.undone();
  const std::uint64_t unended = lane.moves.unended();
  change(lane.moves);
  const std::size_t ended =
      lane.moves.settle([this](const Completion& completion) { counters_.count(completion); });
  // Relaxed: see the members. Unsigned: the difference may be either way.
  load_.store(load() + lane.moves.undone() - undone, std::memory_order_relaxed);
  unended_ += lane.moves.unended() - unended;
  busy_lanes_ += unsigned{lane.moves.unended() > 0} - unsigned{unended > 0};
  scheduler_.update(lane);
  waiting_.store(scheduler_.waiting_lanes(), std::memory_order_relaxed);
  if (ended > 0) lane.pins.fetch_add(1, std::memory_order_relaxed);  // the lock orders it
  return ended;
}

// Without the lock. The lane may be gone once its pin is.
void ThreadCore::pay(PendingWakeups& pending_wakeups) noexcept {
  if (pending_wakeups.announce != nullptr) {
    pending_wakeups.announce->progress.announce();
    pending_wakeups.announce->pins.fetch_sub(1, std::memory_order_release);  // [P]
  }
  if (pending_wakeups.wake != nullptr) {
    wake_ups_.fetch_add(1, std::memory_order_relaxed);
    pending_wakeups.wake->wake();
  }
  pending_wakeups = {};
}

Result<void> ThreadCore::open(LaneEntry& lane) {
  if (!is_here())
    return fail(Code::closed, "the thread engine: a forked child has no copy threads",
                "make an engine in the child");
  const std::lock_guard lock(mutex_);
  lanes_.push_back(&lane);
  return {};
}

// A ticket ends, and its waiter may come here, a moment before the lane is pinned for the
// announcement. Both happen under one turn of the lock, so under the lock the pin is seen.
void ThreadCore::close(LaneEntry& lane) noexcept {
  for (;; std::this_thread::yield()) {  // an announcement takes one system call at most
    const std::lock_guard lock(mutex_);
    if (lane.pins.load(std::memory_order_acquire) != 0) continue;  // [P]
    scheduler_.remove(lane);
    std::erase(lanes_, &lane);
    return;
  }
}

void ThreadCore::publish(LaneEntry& lane, std::size_t count, bool alone) noexcept {
  const std::uint64_t now_ns = monotonic_ns();
  PendingWakeups pending_wakeups;
  Lock lock(mutex_);
  if (unended_ == 0 && !alone) began_idle_ns_ = now_ns;
  const std::size_t ended = change(lane, [&](LaneQueue& moves) {
    lane.is_alone = alone;
    moves.publish(count);
  });
  if (ended > 0) pending_wakeups.announce = &lane;
  if (!alone) pending_wakeups.wake = scheduler_.pick_wake();
  lock.unlock();
  pay(pending_wakeups);
}

void ThreadCore::cancel(LaneEntry& lane) noexcept {
  PendingWakeups pending_wakeups;
  Lock lock(mutex_);
  if (change(lane, [](LaneQueue& moves) { moves.cancel(); }) > 0) pending_wakeups.announce = &lane;
  lock.unlock();
  pay(pending_wakeups);
}

// ---- units ---------------------------------------------------------------------------------

Unit ThreadCore::take(LaneEntry& lane, Ticket last) noexcept {
  const auto until = static_cast<std::uint64_t>(last);
  Unit unit;
  change(lane, [&](LaneQueue& moves) {
    const LaneSlot* head = moves.head(until);
    if (head == nullptr) return;
    // Two can share a move of more than two least units.
    const Bytes half = head->move.bytes / 2 / RateEstimate::kLeastUnit * RateEstimate::kLeastUnit;
    const Bytes share = std::max(half, RateEstimate::kLeastUnit);
    unit = moves.take(std::min(share, rate_.unit_bytes()), until);
  });
  return unit;
}

ThreadCore::Ran ThreadCore::run(const Unit& unit) const noexcept {
  const std::uint64_t begin_ns = monotonic_ns();
  const Executed executed = execute_unit(unit);
  return {executed, monotonic_ns() - begin_ns};
}

std::size_t ThreadCore::finish(LaneEntry& lane, const Unit& unit, const Ran& ran,
                               std::uint64_t cpu_ns) noexcept {
  return change(lane, [&](LaneQueue& moves) { moves.finish(unit, ran.executed, cpu_ns); });
}

bool ThreadCore::is_worth_helping(const LaneSlot& head) const noexcept {
  if (helping_gain_ > kWorthHelping) return true;
  if (head.move.bytes - head.taken <= rate_.wake_up_bytes()) return true;
  return head.in_flight == 0 && !scheduler_.has_free_worker();  // nobody executes it
}

std::optional<std::size_t> ThreadCore::help(LaneEntry& lane, Ticket last, Help when) noexcept {
  PendingWakeups pending_wakeups;
  Lock lock(mutex_);
  const LaneSlot* head = lane.moves.head(static_cast<std::uint64_t>(last));
  if (head == nullptr || (when == Help::when_quicker && !is_worth_helping(*head))) return {};
  const Unit unit = take(lane, last);
  ++helpers_;
  began_idle_ns_ = 0;
  pending_wakeups.wake = scheduler_.pick_wake();
  lock.unlock();
  pay(pending_wakeups);
  const Ran ran = run(unit);
  counters_.add_helped(ran.executed.bytes_done);
  lock.lock();
  GANTRY_ASSERT(helpers_ > 0);
  --helpers_;
  const std::size_t ended = finish(lane, unit, ran, 0);
  if (ended > 0) pending_wakeups.announce = &lane;
  pending_wakeups.wake = scheduler_.pick_wake();
  lock.unlock();
  pay(pending_wakeups);
  return ended;
}

// Reckons with half of what is left, for a worker that is no quicker than this CPU was, and that
// has to come first. It also moves what it copies into caches of its own, out of ours, which loses
// if the gain is small.
bool ThreadCore::is_worth_calling(Bytes left, const Unit& unit, const Ran& ran) const noexcept {
  constexpr double kLeastGainNs = 15'000;
  const double own =
      static_cast<double>(unit.bytes) / static_cast<double>(std::max(ran.ns, std::uint64_t{1}));
  const double together = own + std::min(own, rate_.rate());
  const double gain_ns = static_cast<double>(left) / own - static_cast<double>(left) / together;
  return gain_ns > std::max(kLeastGainNs, static_cast<double>(rate_.start_ns()));
}

// Now workers may take from it.
std::size_t ThreadCore::join_others(LaneEntry& lane) noexcept {
  return change(lane, [&](LaneQueue&) { lane.is_alone = false; });
}

void ThreadCore::begin_alone(LaneEntry& lane) noexcept {
  PendingWakeups pending_wakeups;
  Lock lock(mutex_);
  constexpr std::uint64_t kMostAloneNs = 1'000'000;
  const std::uint64_t until_ns = monotonic_ns() + kMostAloneNs;
  Bytes at_most = RateEstimate::kLeastUnit;
  for (bool called = false; !called; at_most = std::min(2 * at_most, rate_.unit_bytes())) {
    Unit unit;
    change(lane, [&](LaneQueue& moves) { unit = moves.take(at_most); });
    if (unit.slot == nullptr) break;  // done, cancelled, or in the hands of another waiter
    ++helpers_;
    lock.unlock();
    const Ran ran = run(unit);
    counters_.add_helped(ran.executed.bytes_done);
    lock.lock();
    GANTRY_ASSERT(helpers_ > 0);
    --helpers_;
    if (finish(lane, unit, ran, 0) > 0) pending_wakeups.announce = &lane;
    called = is_worth_calling(lane.moves.undone(), unit, ran) || monotonic_ns() > until_ns;
    lock.unlock();
    pay(pending_wakeups);
    lock.lock();
  }
  // Whatever is left, here or with another waiter who gives it back: from now on workers see it.
  began_idle_ns_ = lane.moves.unended() > 0 ? monotonic_ns() : 0;
  if (join_others(lane) > 0) pending_wakeups.announce = &lane;
  pending_wakeups.wake = scheduler_.pick_wake();
  lock.unlock();
  pay(pending_wakeups);
}

// ---- workers -------------------------------------------------------------------------------

std::uint64_t ThreadCore::count_cpu(std::uint64_t& last_ns) noexcept {
  const std::uint64_t now_ns = thread_cpu_ns(), spent_ns = now_ns - last_ns;
  counters_.add_helper_cpu(spent_ns);
  last_ns = now_ns;
  return spent_ns;
}

void ThreadCore::work(Worker& self) noexcept {
  std::uint64_t cpu_ns = 0;  // of this thread, when it was read last
  PendingWakeups pending_wakeups;
  Lock lock(mutex_);
  for (;;) {
    if (LaneEntry* lane = scheduler_.take_turn(self.group()))
      work_on(*lane, lock, pending_wakeups, cpu_ns);
    else if (!quit_)
      look_for_work(self, lock, pending_wakeups, cpu_ns);
    else
      break;
  }
  lock.unlock();
  pay(pending_wakeups);
}

// Executes one unit. What it ended is announced when the lock is next let go, so a unit costs one
// turn of the lock. The thread's clock, a system call, is read once a unit: getting to the unit is
// part of a move's cost.
void ThreadCore::work_on(LaneEntry& lane, Lock& lock, PendingWakeups& pending_wakeups,
                         std::uint64_t& cpu_ns) noexcept {
  if (const std::uint64_t came_ns = std::exchange(began_idle_ns_, 0); came_ns != 0)
    rate_.learn_start(monotonic_ns() - came_ns);
  const Unit unit = take(lane, kAny);
  const bool helped = helpers_ > 0;
  pending_wakeups.wake = scheduler_.pick_wake();
  lock.unlock();
  pay(pending_wakeups);
  const Ran ran = run(unit);
  const std::uint64_t spent_ns = count_cpu(cpu_ns);
  lock.lock();
  if (ran.executed.cause == Cause::none)
    rate_.learn_unit(ran.executed.bytes_done, ran.ns, helped || helpers_ > 0);
  if (finish(lane, unit, ran, spent_ns) > 0) pending_wakeups.announce = &lane;
}

void ThreadCore::look_for_work(Worker& self, Lock& lock, PendingWakeups& pending_wakeups,
                               std::uint64_t& cpu_ns) noexcept {
  scheduler_.begin_looking();
  lock.unlock();
  pay(pending_wakeups);
  // Relaxed: a hint; the lock decides.
  const std::uint64_t until_ns = monotonic_ns() + kLookNs;
  do {
    for (int i = 0; i < kLooks && waiting_.load(std::memory_order_relaxed) == 0; ++i) cpu_relax();
  } while (waiting_.load(std::memory_order_relaxed) == 0 && monotonic_ns() < until_ns);
  if (waiting_.load(std::memory_order_relaxed) == 0) count_cpu(cpu_ns);
  lock.lock();
  scheduler_.end_looking();
  if (scheduler_.waiting_lanes() > 0 || quit_) return;
  scheduler_.become_idle(self);
  lock.unlock();
  self.park();
  lock.lock();
  scheduler_.end_looking();  // it has counted as looking since it was picked
}

// ---- figures -------------------------------------------------------------------------------

std::chrono::nanoseconds ThreadCore::left(const LaneEntry& lane, Ticket ticket) const noexcept {
  // A guess is not worth sleeping for a lock: without it, all of the engine's work counts as the
  // lane's.
  Lock lock(mutex_, std::try_to_lock);
  const auto bytes = static_cast<double>(
      lock ? lane.moves.left_until(static_cast<std::uint64_t>(ticket)) : load());
  const double workers_each =
      static_cast<double>(workers_.size()) / (lock ? std::max(1u, busy_lanes_) : 1u);
  if (lock) lock.unlock();
  // One unit is one worker's.
  const double units = std::max(1.0, bytes / static_cast<double>(rate_.unit_bytes()));
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(bytes / (rate_.rate() * std::min(workers_each, units))));
}

Cost ThreadCore::cost() const noexcept {
  return {std::chrono::nanoseconds(rate_.start_ns()),
          rate_.rate() * static_cast<double>(workers_.size())};
}

}  // namespace gantry
