#pragma once  // tools/gantry/run/process/supervise.hpp: runs the stages from their start to their
              // end.

#include "interrupt.hpp"
#include "run/process/course.hpp"
#include "run/process/guard.hpp"
#include "run/process/host_job.hpp"
#include "run/process/host_reporter.hpp"
#include "run/process/plan.hpp"
#include "run/process/stage_process.hpp"

namespace gantry::run {

struct SuperviseOptions {
  std::chrono::nanoseconds connect_within{};  ///< The time for every stage to open all its ends.
  bool quiet = false;                         ///< Without progress.
  std::string token;                          ///< Of the bridges, where stages are on other hosts.
  Course* course = nullptr;                   ///< Told how the run goes. Not owned.
  HostReporter* reporter = nullptr;  ///< An agent: told all, in place of a person. Not owned.
  int stop_descriptor = -1;          ///< Readable, it interrupts the run.
};

struct ProcessUsage {
  ProcessId id;
  Usage usage;
};

struct Finished {
  double wall_s = 0;
  std::vector<ProcessUsage> processes;
  Result<void> end;  ///< Errors: a host's; the first failing stage's; `interrupted`.
  std::vector<std::string> last_words;  ///< On standard error, of that stage.
};

/// Starts every process of the plan, those of other hosts by their agents, and waits until all have
/// ended well. When one does not, or `interrupt` is raised, all others are stopped: SIGTERM, and
/// SIGKILL half a second later. In any case no process of the run is left. Errors: nothing was
/// started. An agent starts its own host's processes only, and has told its reporter all but an
/// error that is no stage's.
[[nodiscard]] Result<Finished> supervise(Plan& plan, const SuperviseOptions& options, Guard& guard,
                                         const RaisedFileLimit& file_limit,
                                         const cli::Interrupt& interrupt);

}  // namespace gantry::run
