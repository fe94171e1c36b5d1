#include "pipeline/cpu/work_team.hpp"

#include "base/result.hpp"
#include "pipeline/disown.hpp"

namespace gantry {
namespace {

// How long work beside a job waits for somebody to end a part: all may be in one that never ends.
constexpr std::chrono::milliseconds kPatience(5);
// A job of so many times the work beside it is what everybody waits for. Shorter ones are over
// before a helper has been woken.
constexpr int kMuchLonger = 3;

}  // namespace

Result<std::shared_ptr<WorkTeam>> WorkTeam::make(unsigned threads) {
  auto team = std::make_shared<WorkTeam>();
  team->helpers_.reserve(threads);
  try {
    for (unsigned i = 1; i < threads; ++i)
      team->helpers_.emplace_back([self = team.get()] { self->help(); });
  } catch (const std::system_error& error) {
    return fail(Code::system, fmt::format("cpu: starting a thread: {}", error.what()),
                "raise the limit of processes (ulimit -u)");
  }
  return team;
}

WorkTeam::~WorkTeam() {
  if (!maker_.is_this()) {  // the threads did not come along with fork()
    disown(std::move(helpers_));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  work_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void WorkTeam::run(std::size_t parts, const Part& part) noexcept {
  if (parts == 0) return;
  const auto began = Clock::now();
  Job job{&part, parts, 0, parts, {}};
  Lock lock(mutex_);
  if (!post(job, jobs_.end())) {
    lock.unlock();
    for (std::size_t i = 0; i < parts; ++i) part(i);
    return;
  }
  if (parts > 2)
    work_.notify_all();
  else if (parts == 2)
    work_.notify_one();
  ++working_;
  while (job.next < job.parts) take_part(job, lock);
  --working_;
  job.over.wait(lock, [&job] { return job.open == 0; });
  last_run_ = Clock::now() - began;
}

void WorkTeam::run_beside(const std::function<void()>& work) noexcept {
  const Part part = [&work](std::size_t) { work(); };
  Job job{&part, 1, 0, 1, {}};
  Lock lock(mutex_);
  if (would_be_in_the_way() && post(job, jobs_.begin())) {
    work_.notify_one();
    const auto is_over = [&job] { return job.open == 0; };
    if (job.over.wait_for(lock, kPatience, is_over)) return;
    if (job.next != 0) return job.over.wait(lock, is_over);
    jobs_.remove(&job);
  }
  lock.unlock();
  const auto began = Clock::now();
  work();
  const auto took = Clock::now() - began;
  lock.lock();
  last_beside_ = took;
}

bool WorkTeam::would_be_in_the_way() const noexcept {
  return working_ > 0 && !helpers_.empty() && last_run_ > kMuchLonger * last_beside_;
}

bool WorkTeam::post(Job& job, std::list<Job*>::iterator where) noexcept {
  try {
    jobs_.insert(where, &job);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void WorkTeam::take_part(Job& job, Lock& lock) noexcept {
  const std::size_t number = job.next++;
  if (job.next == job.parts) jobs_.remove(&job);
  lock.unlock();
  (*job.part)(number);
  lock.lock();
  if (--job.open == 0) job.over.notify_one();
}

void WorkTeam::help() noexcept {
  Lock lock(mutex_);
  while (!quit_) {
    if (jobs_.empty()) {
      work_.wait(lock);
      continue;
    }
    ++working_;
    take_part(*jobs_.front(), lock);
    --working_;
  }
}

}  // namespace gantry
