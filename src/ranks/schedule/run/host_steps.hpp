#pragma once  // schedule/run/host_steps.hpp: computing steps in this host's memory, the thread on
              // which steps end, and how the one that serves the links learns it.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <gantry/types.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/os/fd.hpp"
#include "ranks/schedule/run/places.hpp"

namespace gantry {

struct EndedStep {
  using Time = Deadline::Clock::time_point;
  std::uint32_t item = 0;
  std::optional<Error> error = {};
  Time began = {};
  Time ended = {};
};

/// From the threads on which steps end to the one that serves the links.
///   I1  There is room for all that is expected: that something has ended is always told.
class EndedSteps {
 public:
  /// Errors: `system`.
  [[nodiscard]] static Result<std::unique_ptr<EndedSteps>> make();

  /// One more will be told.
  void expect();
  void tell(EndedStep ended) noexcept;
  /// Moves what has ended since the last call to the end of `ended`.
  void take(std::vector<EndedStep>& ended);
  /// Once nobody tells anything any more.
  void forget() noexcept;
  /// Readable when something has ended.
  [[nodiscard]] int descriptor() const noexcept { return event_.get(); }

 private:
  explicit EndedSteps(Fd event) : event_(std::move(event)) {}

  const Fd event_;
  std::mutex mutex_;  // guards what follows
  std::vector<EndedStep> ended_;
  std::size_t expected_ = 0;
};

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

void copy_rect(const LocalRect& to, const LocalRect& from) noexcept;
void fill_rect(const LocalRect& to) noexcept;  ///< With zeros.
/// `to` += `from`, each element rounded once to its type; integers wrap.
void add_rect(DataType type, const LocalRect& to, const LocalRect& from) noexcept;

/// Does a rank's products, copies, sums and fills on one thread, in the order of push(). One thread
/// calls.
class HostSteps {
 public:
  /// `gemm`: null if no step is a product of the host. All must outlive it. Errors: `system`,
  /// `out_of_memory`.
  [[nodiscard]] static Result<std::unique_ptr<HostSteps>> start(const Plan& plan,
                                                                const PlanPlaces& places,
                                                                GemmLibrary* gemm,
                                                                EndedSteps& ended);
  void push(std::uint32_t item, std::uint32_t step);
  /// Does a step in the calling thread if that takes less time than handing it over and nothing is
  /// before it. False: push() it.
  [[nodiscard]] bool does_at_once(std::uint32_t step);
  [[nodiscard]] StepThread& thread() noexcept { return *thread_; }

 private:
  HostSteps(const Plan& plan, const PlanPlaces& places, GemmLibrary* gemm)
      : plan_(plan), places_(places), gemm_(gemm) {}
  [[nodiscard]] Result<void> execute(const PlanStep& step) const;
  [[nodiscard]] Result<void> multiply(const PlanStep& step) const;

  const Plan& plan_;
  const PlanPlaces& places_;
  GemmLibrary* const gemm_;
  std::unique_ptr<StepThread> thread_;
};

}  // namespace gantry
