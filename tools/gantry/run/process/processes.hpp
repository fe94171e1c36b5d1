#pragma once  // tools/gantry/run/process/processes.hpp: facts of running processes, from /proc.

#include <sys/resource.h>
#include <sys/types.h>

#include <gantry/types.hpp>
#include <optional>
#include <vector>

#include "run/process/descriptor.hpp"

namespace gantry::run {

struct ProcessFacts {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  bool dead = false;     ///< It only waits to be reaped.
  bool exiting = false;  ///< It is ending for certain: its descriptors may be closed already.
};

/// Nothing if there is no such process.
[[nodiscard]] std::optional<ProcessFacts> process_facts(pid_t pid);
[[nodiscard]] std::vector<ProcessFacts> all_processes();

/// The members of process group `group` that still run, its leader not counted.
[[nodiscard]] std::vector<pid_t> live_followers(const std::vector<ProcessFacts>& processes,
                                                pid_t group);
/// The children of this process.
[[nodiscard]] std::vector<ProcessFacts> own_children();

/// Readable once the process has ended. Empty when there is none, with errno.
[[nodiscard]] Descriptor open_pidfd(pid_t pid) noexcept;

/// Waits for the end of a child, or of one in the group -`pid`, and reaps it. Returns its pid; 0
/// when it still runs at `until` (one of another user, or one that hangs in the kernel, cannot be
/// killed); -1 when there is none.
pid_t reap_child(pid_t pid, Deadline until, rusage* usage = nullptr) noexcept;

}  // namespace gantry::run
