#include "core/engine/thread/scheduler.hpp"

#include <pthread.h>

#include "core/base/assert.hpp"
#include "core/base/futex.hpp"
#include "core/base/os/disown.hpp"
#include "core/base/os/numa_nodes.hpp"
#include "core/base/os/worker_thread.hpp"

namespace gantry {

// ---- workers -------------------------------------------------------------------------------

Result<void> Worker::start(const WorkerPlace& place, std::function<void()> body) {
  GANTRY_ASSIGN(thread_, start_thread("a copy thread", [place, body = std::move(body)] {
                  ::pthread_setname_np(::pthread_self(), "gantry-copy");
                  bind_this_thread(place.cpus);
                  body();
                }));
  return {};
}

void Worker::forget_thread() noexcept {
  if (thread_.joinable()) disown(std::move(thread_));
}

void Worker::park() noexcept {
  while (awake_.load(std::memory_order_acquire) == 0) futex_wait(awake_, 0);  // [K]
}

void Worker::wake() noexcept {
  awake_.store(1, std::memory_order_release);  // [K]
  futex_wake(awake_, 1);
}

// ---- whose turn it is ----------------------------------------------------------------------

void Scheduler::append(LaneEntry& lane, int group) noexcept {
  List& list = lists_[static_cast<std::size_t>(group)];
  lane.group_ = group;
  lane.next_ = nullptr;
  lane.previous_ = list.last;
  (list.last != nullptr ? list.last->next_ : list.first) = &lane;
  list.last = &lane;
  ++listed_;
}

void Scheduler::remove(LaneEntry& lane) noexcept {
  if (lane.group_ == LaneEntry::kNoGroup) return;
  List& list = lists_[static_cast<std::size_t>(lane.group_)];
  (lane.previous_ != nullptr ? lane.previous_->next_ : list.first) = lane.next_;
  (lane.next_ != nullptr ? lane.next_->previous_ : list.last) = lane.previous_;
  lane.group_ = LaneEntry::kNoGroup;
  GANTRY_ASSERT(listed_ > 0);  // I4
  --listed_;
  GANTRY_CHECK_INVARIANTS(*this);
}

void Scheduler::update(LaneEntry& lane) noexcept {
  const LaneSlot* head = lane.moves.head();
  const int group =
      head != nullptr && !lane.is_alone ? static_cast<int>(head->node) : LaneEntry::kNoGroup;
  if (group == lane.group_) return GANTRY_CHECK_INVARIANTS(*this);  // keeps its place
  remove(lane);
  if (group != LaneEntry::kNoGroup) append(lane, group);
  GANTRY_CHECK_INVARIANTS(*this);
}

LaneEntry* Scheduler::take_turn(unsigned group) noexcept {
  for (std::size_t i = 0; i < lists_.size(); ++i) {
    LaneEntry* lane = lists_[(group + i) % lists_.size()].first;
    if (lane == nullptr) continue;
    remove(*lane);  // update(), after the unit was taken, puts it at the end
    return lane;
  }
  return nullptr;
}

void Scheduler::become_idle(Worker& worker) noexcept {
  List& list = lists_[worker.group()];
  worker.prepare_to_park();
  worker.next_idle = list.idle;
  list.idle = &worker;
  ++idle_;
  GANTRY_CHECK_INVARIANTS(*this);
}

Worker* Scheduler::pop_idle(List& list) noexcept {
  Worker* worker = list.idle;
  if (worker == nullptr) return nullptr;
  list.idle = worker->next_idle;
  GANTRY_ASSERT(idle_ > 0);
  --idle_;
  ++looking_;
  GANTRY_CHECK_INVARIANTS(*this);
  return worker;
}

Worker* Scheduler::pick_wake() noexcept {
  if (listed_ <= looking_ || idle_ == 0) return nullptr;  // I2
  for (List& list : lists_)
    if (list.first != nullptr)
      if (Worker* near = pop_idle(list)) return near;
  return pick_any();
}

Worker* Scheduler::pick_any() noexcept {
  for (List& list : lists_)
    if (Worker* worker = pop_idle(list)) return worker;
  return nullptr;
}

#ifndef NDEBUG
// Checks the lanes in that list.
unsigned Scheduler::check_list(int group) const noexcept {
  const List& list = lists_[static_cast<std::size_t>(group)];
  const LaneEntry* previous = nullptr;
  unsigned count = 0;
  for (const LaneEntry* lane = list.first; lane != nullptr; lane = lane->next_) {
    GANTRY_ASSERT(lane->previous_ == previous && lane->group_ == group);  // I3
    const LaneSlot* const head = lane->moves.head();
    GANTRY_ASSERT(head != nullptr && !lane->is_alone);          // I1
    GANTRY_ASSERT(head->node == static_cast<unsigned>(group));  // I1
    previous = lane;
    ++count;
  }
  GANTRY_ASSERT(list.last == previous);  // I3
  return count;
}

void Scheduler::check_invariants() const noexcept {
  unsigned listed = 0, idle = 0;
  for (std::size_t group = 0; group < lists_.size(); ++group) {
    listed += check_list(static_cast<int>(group));
    const Worker* worker = lists_[group].idle;
    for (; worker != nullptr && idle <= idle_; worker = worker->next_idle, ++idle)
      GANTRY_ASSERT(worker->group() == group);  // I5
  }
  GANTRY_ASSERT(listed == listed_);                                           // I4
  GANTRY_ASSERT(idle == idle_);                                               // I5
  GANTRY_ASSERT(looking_ <= kMaxWorkers && idle_ <= kMaxWorkers - looking_);  // I6
}
#endif

}  // namespace gantry
