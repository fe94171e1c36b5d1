#pragma once  // cpu/work_team.hpp: threads that share the parts of a job with its caller.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <gantry/types.hpp>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/os/fork.hpp"

namespace gantry {

/// Any thread may call every member.
///
/// Parts are taken without a lock. If a thread had to wait for one between a part and saying that
/// the part has ended, it would hold up all others for as long as the system leaves it waiting.
///   I1  A job is in the list until its caller has found no part left. Helpers come to it under
///       the lock, while it is there, and only if it has parts.
///   I2  The caller runs each part, or a helper does between coming (`helpers` + 1) and leaving
///       (- 1). So when the job is off the list and nobody is at it, all parts have ended.
/// Pairs: A, leaving and finding nobody: what the parts wrote. B, `left_` and its reading: whoever
/// left before the word that was read has been seen leaving, so no wake-up is lost.
class WorkTeam {
 public:
  using Part = std::function<void(std::size_t)>;

  /// `threads` includes the caller of run(), so one less is started. Errors: `system`.
  [[nodiscard]] static Result<std::shared_ptr<WorkTeam>> make(unsigned threads);
  WorkTeam() = default;
  ~WorkTeam();
  WorkTeam(const WorkTeam&) = delete;
  WorkTeam& operator=(const WorkTeam&) = delete;

  [[nodiscard]] unsigned threads() const noexcept {
    return static_cast<unsigned>(helpers_.size()) + 1;
  }
  /// Calls `part` with each number below `parts` once, on any free thread of the team, the caller
  /// included; returns when all have ended. `part` must not throw.
  void run(std::size_t parts, const Part& part) noexcept;
  /// Runs `work`, a copy, for a thread outside the team. While the team is at jobs much longer than
  /// it, a member does it between two parts. Otherwise there would be a thread more than CPUs, and
  /// a part whose thread stands behind it in the system's queue would hold up all others for longer
  /// than the copy takes. `work` must not throw.
  void run_beside(const std::function<void()>& work) noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  struct Job {
    const Part& part;
    const std::size_t parts;
    std::atomic<std::size_t> next{0};
    std::atomic<unsigned> helpers{0};

    [[nodiscard]] bool has_parts() const noexcept {
      return next.load(std::memory_order_relaxed) < parts;
    }
  };
  struct Beside {
    const std::function<void()>& work;
    bool is_taken = false;
    bool is_over = false;
    std::condition_variable over;
  };

  [[nodiscard]] bool would_be_in_the_way() const noexcept;
  [[nodiscard]] bool is_done_by_team(const std::function<void()>& work, Lock& lock) noexcept;
  void help() noexcept;
  void take_parts(Job& job) noexcept;
  void leave(Job& job) noexcept;
  void wait_for_helpers(const Job& job) noexcept;
  void do_beside(Lock& lock) noexcept;

  const ForkGuard fork_guard_;
  std::mutex mutex_;  // guards what follows, up to quit_
  std::condition_variable work_;
  std::list<Job*> jobs_;
  std::list<Beside*> beside_;      // that nobody took yet
  Clock::duration last_run_{};     // duration of the latest run
  Clock::duration last_beside_{};  // duration of the latest copy by its own thread
  bool quit_ = false;
  std::atomic<bool> has_beside_{false};  // a hint of what the lock knows
  std::atomic<std::uint32_t> left_{0};   // goes up when a helper leaves a job
  std::vector<std::thread> helpers_;     // constant after make()
};

}  // namespace gantry
