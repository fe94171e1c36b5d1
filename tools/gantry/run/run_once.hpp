#pragma once  // tools/gantry/run/run_once.hpp: one run of a pipeline, with all that
              // surrounds it.

#include "run/report/report.hpp"

namespace gantry::run {

struct TraceWish {
  std::string file;                 ///< Empty: none.
  std::uint64_t events = 1U << 16;  ///< Of each end: see trace::RecordingOptions.
};

/// Runs the pipeline over `transport` in a directory of its own below `base` and reports. Nothing
/// is left afterwards, whatever happened. `trace`: for what this host's stages did, also of a run
/// that fails.
[[nodiscard]] Result<RunReport> run_once(const Pipeline& pipeline, Transport transport,
                                         const std::string& base, SuperviseOptions options,
                                         const cli::Interrupt& interrupt,
                                         const TraceWish& trace = {});

/// What the parent may have set and what would disturb: ignored SIGCHLD loses exit statuses, and
/// SIGPIPE ends us before we have cleaned up.
void settle_signals();
/// Where run directories are made. Absolute, because stages may change their working directory.
[[nodiscard]] Result<std::string> base_directory();

}  // namespace gantry::run
