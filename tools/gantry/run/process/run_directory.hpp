#pragma once  // tools/gantry/run/process/run_directory.hpp: the private folder of one run.

#include <gantry/types.hpp>

#include "interrupt.hpp"
#include "run/process/descriptor.hpp"

namespace gantry::run {

/// A folder run-PID-XXXXXX (mode 0700) with the run's channels. As long as this process or its
/// guard lives, the file .runner in it is locked (flock); a folder without that lock belongs to a
/// run that was killed. Destroying this object removes the folder with all in it. Move-only.
class RunDirectory {
 public:
  /// Makes one for the pipeline of that name in `base`, a directory as channel_directory() returns
  /// it. Errors: `timed_out` when another process stays inside the lock of `base`; `interrupted`;
  /// `system`.
  [[nodiscard]] static Result<RunDirectory> create(const std::string& base,
                                                   std::string_view pipeline,
                                                   const cli::Interrupt& interrupt);

  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&&) = delete;
  ~RunDirectory();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;  // empty: moved from
  Descriptor lock_;
};

/// Removes it with all in it. Never fails: the next sweep removes what cannot go now.
void remove_run_directory(const std::string& path);

/// Removes the run directories in `base` whose runner is dead; none while `base` stays locked.
void sweep_run_directories(const std::string& base, const cli::Interrupt& interrupt);

}  // namespace gantry::run
