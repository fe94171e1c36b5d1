#pragma once  // pipeline/cpu/work_team.hpp: threads that share the parts of a job with its caller.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <gantry/types.hpp>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fork.hpp"

namespace gantry {

/// Every member may be called from any thread.
class WorkTeam {
 public:
  using Part = std::function<void(std::size_t)>;

  /// `threads`: with the caller of run(), so one less is started. Errors: `system`.
  [[nodiscard]] static Result<std::shared_ptr<WorkTeam>> make(unsigned threads);
  WorkTeam() = default;
  ~WorkTeam();
  WorkTeam(const WorkTeam&) = delete;
  WorkTeam& operator=(const WorkTeam&) = delete;

  [[nodiscard]] unsigned threads() const noexcept {
    return static_cast<unsigned>(helpers_.size()) + 1;
  }
  /// Calls `part` with each number below `parts` once, by whoever of the team is free, the caller
  /// too; returns when all have ended. `part` does not throw.
  void run(std::size_t parts, const Part& part) noexcept;
  /// Work of a thread that is not of the team, a copy. While the team is at jobs much longer than
  /// it, one of the team does it between two parts: else there would be a thread more than CPUs,
  /// and a part whose thread stands behind it in the system's queue would hold up all others for
  /// longer than the copy takes. `work` does not throw.
  void run_beside(const std::function<void()>& work) noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  struct Job {
    const Part* part = nullptr;
    std::size_t parts = 0;
    std::size_t next = 0;
    std::size_t open = 0;  // parts that have not ended
    std::condition_variable over;
  };
  using Lock = std::unique_lock<std::mutex>;

  /// `false`: there is no memory for it.
  [[nodiscard]] bool post(Job& job, std::list<Job*>::iterator where) noexcept;
  [[nodiscard]] bool would_be_in_the_way() const noexcept;
  void help() noexcept;
  void take_part(Job& job, Lock& lock) noexcept;

  const MakerProcess maker_;
  std::mutex mutex_;  // guards what follows, and the jobs
  std::condition_variable work_;
  std::list<Job*> jobs_;  // with parts that nobody took yet
  bool quit_ = false;
  std::size_t working_ = 0;           // threads that take parts
  Clock::duration last_run_{};        // how long the latest took
  Clock::duration last_beside_{};     // by its own thread
  std::vector<std::thread> helpers_;  // after make() only looked at
};

}  // namespace gantry
