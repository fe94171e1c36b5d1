#pragma once  // bench/start/restore/contest.hpp: all ways of bringing a saved memory back, taking
              // turns.

#include "../settings.hpp"
#include "contents.hpp"
#include "tools/command_line/progress.hpp"

namespace gantry::bench {

/// Those that are wanted; that of a guest where there is one. It has a size of its own, so it runs
/// with the first of the sizes only.
[[nodiscard]] std::vector<Contents> wanted_contents(const Settings& settings);

/// Makes a memory of about so many bytes and runs its cases. What cannot be made here, or not come
/// back page by page, is skipped with the reason. Errors: as run_contest().
[[nodiscard]] Result<void> run_restore(const Settings& settings, const Contents& contents,
                                       Bytes bytes, int interrupt_descriptor,
                                       cli::Progress& progress, Report& report);

/// Adds the ratios that matter.
void add_restore_findings(Report& report);
[[nodiscard]] bool is_restore(std::string_view case_name);
// Of its table.
[[nodiscard]] std::string restore_heading(const std::string& case_name);
[[nodiscard]] std::string restore_line(const Report& report, const Row& row);

}  // namespace gantry::bench
