#pragma once  // tools/gantry/run/process/guard.hpp: cleans up when the runner itself is killed.

#include <sys/types.h>

#include <gantry/types.hpp>
#include <memory>

#include "run/process/descriptor.hpp"

namespace gantry::run {

/// A small process beside the runner that knows the process groups of the stages. When the runner
/// is gone, for whatever reason, the guard kills what is left of them and removes the run
/// directory. Destroying this object ends the process. Only SIGKILL ends it earlier; the run does
/// not depend on it. Move-only.
class Guard {
 public:
  /// Forks. Call it before anything is opened that must not outlive the runner. The lock on the run
  /// directory must outlive it, and is inherited.
  [[nodiscard]] static Result<Guard> start(const std::string& run_directory);

  /// By the name that it gives itself, as any process may.
  [[nodiscard]] static bool is_one(pid_t pid);

  Guard(Guard&& other) noexcept;
  Guard& operator=(Guard&&) = delete;
  ~Guard();

  /// Also for the group's leader before it executes its program: it writes to a pipe, no more.
  void add(pid_t group) noexcept;
  /// Call it before the group's leader is reaped: afterwards its number may be another's.
  void remove(pid_t group) noexcept;
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// Readable once somebody has killed the guard.
  [[nodiscard]] int exit_descriptor() const noexcept { return exit_.get(); }

 private:
  Guard(pid_t pid, Descriptor orders, Descriptor exit)
      : pid_(pid), orders_(std::move(orders)), exit_(std::move(exit)) {}
  void send(pid_t order) noexcept;
  pid_t pid_ = 0;
  Descriptor orders_;  // a pid: add that group; its negative: remove it; the end: the runner's
  Descriptor exit_;    // a pidfd
};

}  // namespace gantry::run
