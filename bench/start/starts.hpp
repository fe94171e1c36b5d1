#pragma once  // bench/start/starts.hpp: what all cases of cold starts share: their folder, their
              // disks, how a process serves, what a start took.

#include <functional>
#include <gantry/file.hpp>

#include "../support/process/process_group.hpp"
#include "../support/process/program_guard.hpp"
#include "../support/report/series.hpp"
#include "direct_reads.hpp"
#include "disk_limit.hpp"
#include "settings.hpp"

namespace gantry::bench {

/// A folder for so many files of at most `bytes` each. It goes whatever becomes of this process.
/// Errors: no room for them.
[[nodiscard]] Result<std::pair<ScratchDirectory, ProgramGuard>> make_folder(Bytes bytes,
                                                                            unsigned files);

/// io_uring, where that works.
[[nodiscard]] Result<std::shared_ptr<FileIo>> best_file_io();

/// The most memory that this process has had.
[[nodiscard]] double peak_bytes() noexcept;

using RunDisk = std::function<Result<void>(const Disk& disk, const DiskLimit* limit)>;
/// Calls `run` for each disk that is wanted and can be had; `limit` is null where it is as it is.
/// The others are skipped, as cases that `name_of` names.
[[nodiscard]] Result<void> run_disks(const Settings& settings, const std::string& folder,
                                     Report& report,
                                     const std::function<std::string(const Disk&)>& name_of,
                                     const RunDisk& run);

/// The way of reading directly that is quickest for a subject before the rounds, by the median of
/// some tries in turns; what was found is among `report`'s choices. `time_ns` tries one. Errors:
/// its.
[[nodiscard]] Result<DirectReads> choose_reads(
    const std::string& case_name, std::string_view subject, Report& report,
    const std::function<Result<double>(const DirectReads&)>& time_ns);

/// Reads from a disk that is held to a rate, and lets so much pass at once first: each start would
/// begin with what the one before it has left of that.
[[nodiscard]] Result<void> use_up_burst(const std::string& path, Bytes file_bytes);

/// What a forked process does: joins `limit`, prepares, and obeys.
void serve(Link& link, const DiskLimit* limit, const std::function<Result<void>()>& prepare,
           const std::function<Result<Answer>(const Command&)>& obey);

/// So often each way is tried before the rounds.
inline constexpr unsigned kChoosingRounds = 3;

/// Puts what a subject said of how it went about a case among the choices, once.
void note_choice(Report& report, const std::string& case_name, std::string_view subject,
                 const std::string& said);

/// Adds what bringing `bytes` took.
void add_start(Series& series, double bytes, double wall_ns, const RoundFigures& figures);

}  // namespace gantry::bench
