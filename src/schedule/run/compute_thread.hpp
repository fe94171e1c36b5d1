#pragma once  // schedule/run/compute_thread.hpp: one thread that does a rank's computing steps.

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/fd.hpp"
#include "schedule/run/places.hpp"

namespace gantry {

/// Does what it is handed in that order. One other thread hands over and takes back. After a step
/// that failed it does nothing more until cancel().
class ComputeThread {
 public:
  struct Ended {
    std::uint32_t item = 0;
    std::optional<Error> error = {};
  };

  /// `gemm`: null if no step is a product. All must outlive it. Errors: `system`, `out_of_memory`.
  [[nodiscard]] static Result<std::unique_ptr<ComputeThread>> start(const Plan& plan,
                                                                    const PlanPlaces& places,
                                                                    GemmLibrary* gemm);
  ~ComputeThread();
  ComputeThread(const ComputeThread&) = delete;
  ComputeThread& operator=(const ComputeThread&) = delete;

  /// `item`: what take_ended() will call the step.
  void push(std::uint32_t item, std::uint32_t step);
  /// Does a step in the calling thread if that takes less time than handing it over and nothing is
  /// before it. False: push() it.
  [[nodiscard]] bool does_at_once(std::uint32_t step);
  /// Moves what has ended since the last call to the end of `ended`.
  void take_ended(std::vector<Ended>& ended);
  /// Readable when something has ended.
  [[nodiscard]] int descriptor() const noexcept { return event_.get(); }
  /// Forgets what has not begun, and waits for what has.
  void cancel() noexcept;
  /// How long steps took since the last call.
  [[nodiscard]] std::chrono::nanoseconds take_busy_time() noexcept;

 private:
  struct Job {
    std::uint32_t item = 0;
    std::uint32_t step = 0;
  };
  ComputeThread(const Plan& plan, const PlanPlaces& places, GemmLibrary* gemm, Fd event)
      : plan_(plan), places_(places), gemm_(gemm), event_(std::move(event)) {}
  void work() noexcept;
  [[nodiscard]] Result<void> execute(const PlanStep& step) const;
  [[nodiscard]] Result<void> multiply(const PlanStep& step) const;

  const Plan& plan_;
  const PlanPlaces& places_;
  GemmLibrary* const gemm_;
  const Fd event_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::vector<Ended> ended_;
  std::chrono::nanoseconds busy_{};
  bool is_working_ = false;
  bool has_failed_ = false;
  bool is_over_ = false;

  std::thread thread_;
};

}  // namespace gantry
