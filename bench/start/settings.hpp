#pragma once  // bench/start/settings.hpp: what a run of this benchmark was asked for.

#include <array>
#include <string>
#include <vector>

#include "../support/program/options.hpp"
#include "../support/report/report.hpp"

namespace gantry::bench {

struct Settings {
  Options common;
  std::vector<std::string> cases;     ///< None: all.
  std::vector<std::string> subjects;  ///< None: all.
  std::vector<std::string> disks;
  std::string guest;  ///< A file that is a guest's memory; "": there is none.

  [[nodiscard]] bool wants_case(std::string_view name) const noexcept;
  [[nodiscard]] bool wants(std::string_view subject) const noexcept;
  /// Whether the case is wanted, and a subject that has a row in it.
  [[nodiscard]] bool measures(std::string_view case_name) const;
};

/// What is loaded.
struct Shape {
  std::string_view case_name;
  std::size_t tensors;
};
inline constexpr Shape kLarge{"weights/large", 16};
inline constexpr Shape kSmall{"weights/small", 20'000};
/// Several workers load the same, which is in the page cache.
inline constexpr Shape kKeep{"keep", 16};
/// Estimates are compared with what they are of.
inline constexpr Shape kEstimates{"estimate", 16};
inline constexpr std::array kKeepWorkers = {1U, 2U, 4U, 8U};

// So many files of its size a case has in $TMPDIR.
inline constexpr unsigned kFilesOfWeights = 3;  ///< As safetensors, and two images.
inline constexpr unsigned kFilesOfMemory = 5;   ///< As it is, three images, and its working set.

/// How quick the disk is that it comes from.
struct Disk {
  std::string_view name;
  Bytes bytes_per_second;  ///< 0: as it is.
};
inline constexpr Disk kAsIs{"as-is", 0};
inline constexpr Disk kOneGb{"1GB/s", 1'000'000'000};
inline constexpr Disk kHalfGb{"0.5GB/s", 500'000'000};

/// "weights/large/1 GiB", "weights/large/1 GiB@1GB/s".
[[nodiscard]] std::string case_of(std::string_view what, Bytes bytes, const Disk& disk);
/// "keep/1 GiB/2 workers".
[[nodiscard]] std::string case_of(Bytes bytes, unsigned workers);

/// What this benchmark says of itself, and its options, which put what they are told into
/// `settings`.
[[nodiscard]] Manual manual(Settings& settings);

// Metrics of this benchmark, beside those of all.
inline constexpr std::string_view kCpuTime = "cpu_time";        ///< Of all threads, in ns.
inline constexpr std::string_view kPeakMemory = "peak_memory";  ///< Of the process, in bytes.
inline constexpr std::string_view kUsableTime = "usable_time";  ///< Until a worker has it, in ns.
// Of a memory that was saved.
inline constexpr std::string_view kAllTime = "all_time";         ///< Until all was read, in ns.
inline constexpr std::string_view kAllCpuTime = "all_cpu_time";  ///< The same of all threads.
inline constexpr std::string_view kTouchP50 = "touch_p50";       ///< Of a page out of turn, in ns.
inline constexpr std::string_view kTouchP99 = "touch_p99";
inline constexpr std::string_view kStoredBytes = "stored_bytes";    ///< Of its image.
inline constexpr std::string_view kNonzeroBytes = "nonzero_bytes";  ///< Of its other pages.

/// Runs every case. Errors: a start that failed or gave other bytes, a file that cannot be made
/// cold, `interrupted`. A disk that cannot be held, and limit/o-direct where there is no such
/// thing, are skipped with the reason.
[[nodiscard]] Result<void> run_contest(const Settings& settings, int interrupt_descriptor,
                                       Report& report);

/// Adds the ratios that matter.
void add_findings(Report& report, const Settings& settings);
/// Tables, and at their end those ratios.
[[nodiscard]] std::string to_text(const Settings& settings, const Report& report);

}  // namespace gantry::bench
