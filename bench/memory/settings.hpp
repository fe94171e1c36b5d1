#pragma once  // bench/memory/settings.hpp: what a run of this benchmark was asked for.

#include <string>
#include <vector>

#include "../support/program/options.hpp"
#include "contest.hpp"

namespace gantry::bench {

struct Settings {
  Options common;
  std::vector<unsigned> threads;
  std::vector<std::string> registrars;  ///< Asked for, later those that are usable.
  std::vector<std::string> patterns;
  Bytes touch_bytes = 0;
  std::vector<std::string> parts;
  std::vector<int> cpus;  ///< That may be used; the first leads.
  std::string directory;  ///< For files.

  [[nodiscard]] bool has_part(std::string_view part) const noexcept;
  [[nodiscard]] bool has_registrar(std::string_view registrar) const noexcept;
  [[nodiscard]] bool has_pattern(std::string_view pattern) const noexcept;
};

inline constexpr std::string_view kFixed = "fixed";
inline constexpr std::string_view kMany = "lunasa-8k";
inline constexpr std::string_view kRandom = "random";

/// The questions that this benchmark answers, the order of the report.
inline constexpr std::string_view kBlocks = "blocks";
inline constexpr std::string_view kScaling = "scaling";
inline constexpr std::string_view kTouch = "touch";
inline constexpr std::string_view kTransfers = "transfers";

/// What this benchmark says of itself, and its options, which put what they are told into
/// `settings`.
[[nodiscard]] Manual manual(Settings& settings);

// What is to be run for each of them.
[[nodiscard]] std::vector<Contest> block_contests(const Settings& settings);
[[nodiscard]] std::vector<Contest> scaling_contests(const Settings& settings);
[[nodiscard]] std::vector<Contest> touch_contests(const Settings& settings);
[[nodiscard]] std::vector<Contest> uring_contests(const Settings& settings);
[[nodiscard]] std::vector<Contest> fabric_contests(const Settings& settings);

/// "uring/fixed/8 KiB", with "/2 threads" when there is more than one.
[[nodiscard]] std::string case_of(std::string_view registrar, std::string_view pattern,
                                  unsigned threads);

/// Adds the ratios that matter.
void add_findings(Report& report, const Settings& settings);
/// Tables, and at their end those ratios.
[[nodiscard]] std::string to_text(const Settings& settings, const Report& report);

}  // namespace gantry::bench
