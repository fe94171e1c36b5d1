#pragma once  // schedule/run/step_thread.hpp: a thread on which a rank's steps end, one by one.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>

#include "schedule/run/ended_steps.hpp"

namespace gantry {

/// Does what it is handed in that order. After a step that failed it does nothing more until
/// cancel(). What a library throws is such a failure.
class StepThread {
 public:
  using Work = std::function<Result<void>()>;

  /// `ended` must outlive it. Errors: `system`, `out_of_memory`.
  [[nodiscard]] static Result<std::unique_ptr<StepThread>> start(EndedSteps& ended);
  ~StepThread();
  StepThread(const StepThread&) = delete;
  StepThread& operator=(const StepThread&) = delete;

  /// `item`: what EndedStep will call it.
  void push(std::uint32_t item, Work work);
  [[nodiscard]] bool is_idle();
  /// Forgets what has not begun, and waits for what has.
  void cancel() noexcept;
  /// How long steps took since the last call.
  [[nodiscard]] std::chrono::nanoseconds take_busy_time() noexcept;

 private:
  struct Job {
    std::uint32_t item = 0;
    Work work;
  };
  explicit StepThread(EndedSteps& ended) : ended_(ended) {}
  void work() noexcept;

  EndedSteps& ended_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::chrono::nanoseconds busy_{};
  bool is_working_ = false;
  bool has_failed_ = false;
  bool is_over_ = false;

  std::thread thread_;
};

}  // namespace gantry
