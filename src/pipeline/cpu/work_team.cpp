#include "pipeline/cpu/work_team.hpp"

#include "base/result.hpp"
#include "pipeline/disown.hpp"

namespace gantry {

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

void WorkTeam::run(std::size_t parts, const std::function<void(std::size_t)>& part) noexcept {
  if (parts == 0) return;
  Job job{&part, parts, 0, parts, {}};
  std::list<Job*> one;
  try {
    one.push_back(&job);
  } catch (const std::bad_alloc&) {
    for (std::size_t i = 0; i < parts; ++i) part(i);  // alone
    return;
  }
  Lock lock(mutex_);
  jobs_.splice(jobs_.end(), one);
  if (parts > 2)
    work_.notify_all();
  else if (parts == 2)
    work_.notify_one();
  while (job.next < job.parts) take_part(job, lock);
  job.over.wait(lock, [&job] { return job.open == 0; });
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
    if (jobs_.empty())
      work_.wait(lock);
    else
      take_part(*jobs_.front(), lock);
  }
}

}  // namespace gantry
