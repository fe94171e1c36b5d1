#include "schedule/run/step_thread.hpp"

#include <fmt/format.h>

#include "base/result.hpp"
#include "base/worker_thread.hpp"

namespace gantry {
namespace {

using Clock = std::chrono::steady_clock;

// What a library does that throws is an error of its step.
Result<void> caught(const StepThread::Work& work) noexcept {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return tl::unexpected(Error{Code::out_of_memory, "out of memory", {}});
  } catch (const std::exception& thrown) {
    return guarded([&]() -> Result<void> {
      return fail(Code::system, fmt::format("the library threw: {}", thrown.what()));
    });
  } catch (...) {
    return guarded([]() -> Result<void> { return fail(Code::system, "the library threw"); });
  }
}

}  // namespace

Result<std::unique_ptr<StepThread>> StepThread::start(EndedSteps& ended) {
  std::unique_ptr<StepThread> made(new StepThread(ended));
  GANTRY_ASSIGN(made->thread_,
                start_thread("the thread that computes", [self = made.get()] { self->work(); }));
  return made;
}

StepThread::~StepThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    jobs_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

void StepThread::push(std::uint32_t item, Work work) {
  ended_.expect();
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({item, std::move(work)});
    if (is_working_ || jobs_.size() > 1) return;
  }
  changed_.notify_all();
}

bool StepThread::is_idle() {
  const std::lock_guard lock(mutex_);
  return !is_working_ && jobs_.empty();
}

void StepThread::cancel() noexcept {
  std::unique_lock lock(mutex_);
  jobs_.clear();
  changed_.wait(lock, [this] { return !is_working_; });
  has_failed_ = false;
}

std::chrono::nanoseconds StepThread::take_busy_time() noexcept {
  const std::lock_guard lock(mutex_);
  return std::exchange(busy_, {});
}

void StepThread::work() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_over_ || (!jobs_.empty() && !has_failed_); });
    if (is_over_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    is_working_ = true;
    lock.unlock();
    const auto began = Clock::now();
    auto done = caught(job.work);
    const auto ended = Clock::now();
    lock.lock();
    is_working_ = false;
    busy_ += ended - began;
    has_failed_ = !done;
    ended_.tell({job.item, done ? std::optional<Error>() : std::move(done).error(), began, ended});
    changed_.notify_all();  // cancel()
  }
}

}  // namespace gantry
