#include "device/cpu/work_team.hpp"

#include <algorithm>

#include "core/base/os/worker_thread.hpp"
#include "core/base/result.hpp"

namespace gantry {
namespace {

// How long work beside a job waits for a part to end: all may be in one that never ends.
constexpr std::chrono::milliseconds kPatience(5);
// Everybody waits for a job that is this many times as long as the work beside it. Shorter ones are
// over before a helper has been woken.
constexpr int kMuchLonger = 3;

// False if there is no memory.
template <class T>
bool add(std::list<T*>& to, T& what) noexcept {
  try {
    to.push_back(&what);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace

Result<std::shared_ptr<WorkTeam>> WorkTeam::make(unsigned threads) {
  // A fork's copy is left as it is: its threads did not come along, and its condition has sleepers
  // for ever, so neither can be destroyed.
  const auto end = [](WorkTeam* team) {
    if (team->fork_guard_.is_this()) delete team;
  };
  std::shared_ptr<WorkTeam> team(new WorkTeam, end);
  team->helpers_.reserve(threads);
  for (unsigned i = 1; i < threads; ++i) {
    GANTRY_ASSIGN(std::thread helper, start_thread("a thread of the device cpu",
                                                   [self = team.get()] { self->help(); }));
    team->helpers_.push_back(std::move(helper));
  }
  return team;
}

WorkTeam::~WorkTeam() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  work_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

// ---- whose job it is ------------------------------------------------------------------------

void WorkTeam::run(std::size_t parts, const Part& part) noexcept {
  if (parts == 0) return;
  const auto began = Clock::now();
  Job job{part, parts};
  Lock lock(mutex_);
  const bool is_shared = parts > 1 && add(jobs_, job);
  lock.unlock();
  if (is_shared) work_.notify_all();
  while (job.has_parts()) {
    take_parts(job);
    if (!has_beside_.load(std::memory_order_relaxed)) continue;
    lock.lock();
    do_beside(lock);
    lock.unlock();
  }
  lock.lock();
  if (is_shared) jobs_.remove(&job);  // I1
  lock.unlock();
  wait_for_helpers(job);
  lock.lock();
  last_run_ = Clock::now() - began;
}

void WorkTeam::wait_for_helpers(const Job& job) noexcept {
  while (true) {
    const std::uint32_t seen = left_.load(std::memory_order_acquire);  // B
    if (job.helpers.load(std::memory_order_acquire) == 0) return;      // A
    left_.wait(seen, std::memory_order_relaxed);
  }
}

void WorkTeam::run_beside(const std::function<void()>& work) noexcept {
  Lock lock(mutex_);
  if (would_be_in_the_way() && is_done_by_team(work, lock)) return;
  lock.unlock();
  const auto began = Clock::now();
  work();
  const auto took = Clock::now() - began;
  lock.lock();
  last_beside_ = took;
}

bool WorkTeam::would_be_in_the_way() const noexcept {
  return !jobs_.empty() && !helpers_.empty() && last_run_ > kMuchLonger * last_beside_;
}

bool WorkTeam::is_done_by_team(const std::function<void()>& work, Lock& lock) noexcept {
  Beside beside{work, false, false, {}};
  if (!add(beside_, beside)) return false;
  has_beside_.store(true, std::memory_order_relaxed);
  work_.notify_one();
  const auto is_over = [&beside] { return beside.is_over; };
  if (beside.over.wait_for(lock, kPatience, is_over)) return true;
  if (beside.is_taken) {
    beside.over.wait(lock, is_over);
    return true;
  }
  beside_.remove(&beside);
  has_beside_.store(!beside_.empty(), std::memory_order_relaxed);
  return false;
}

// ---- who helps ------------------------------------------------------------------------------

void WorkTeam::help() noexcept {
  Lock lock(mutex_);
  while (!quit_) {
    if (!beside_.empty()) {
      do_beside(lock);
    } else if (const auto found = std::ranges::find_if(jobs_, &Job::has_parts);
               found != jobs_.end()) {
      Job& job = **found;
      job.helpers.fetch_add(1, std::memory_order_relaxed);  // I1, I2
      lock.unlock();
      take_parts(job);
      leave(job);
      lock.lock();
    } else {
      work_.wait(lock);
    }
  }
}

// Until there are none, or something else has to be done first.
void WorkTeam::take_parts(Job& job) noexcept {
  while (!has_beside_.load(std::memory_order_relaxed)) {
    const std::size_t number = job.next.fetch_add(1, std::memory_order_relaxed);
    if (number >= job.parts) return;
    job.part(number);
  }
}

void WorkTeam::leave(Job& job) noexcept {
  job.helpers.fetch_sub(1, std::memory_order_release);  // A: after this it may be gone
  left_.fetch_add(1, std::memory_order_release);        // B
  left_.notify_all();
}

void WorkTeam::do_beside(Lock& lock) noexcept {
  if (beside_.empty()) return;
  Beside& beside = *beside_.front();
  beside_.pop_front();
  has_beside_.store(!beside_.empty(), std::memory_order_relaxed);
  beside.is_taken = true;
  lock.unlock();
  beside.work();
  lock.lock();
  beside.is_over = true;
  beside.over.notify_one();
}

}  // namespace gantry
