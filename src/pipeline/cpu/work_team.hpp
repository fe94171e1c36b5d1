#pragma once  // pipeline/cpu/work_team.hpp: threads that share the parts of a job with its caller.

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
  void run(std::size_t parts, const std::function<void(std::size_t)>& part) noexcept;

 private:
  struct Job {
    const std::function<void(std::size_t)>* part = nullptr;
    std::size_t parts = 0;
    std::size_t next = 0;
    std::size_t open = 0;  // parts that have not ended
    std::condition_variable over;
  };
  using Lock = std::unique_lock<std::mutex>;

  void help() noexcept;
  void take_part(Job& job, Lock& lock) noexcept;

  const MakerProcess maker_;
  std::mutex mutex_;  // guards what follows, and the jobs
  std::condition_variable work_;
  std::list<Job*> jobs_;  // with parts that nobody took yet
  bool quit_ = false;
  std::vector<std::thread> helpers_;  // after make() only looked at
};

}  // namespace gantry
