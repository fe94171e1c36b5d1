// What a person reads of memory that came back.

#include <fmt/format.h>

#include <algorithm>

#include "../../support/report/findings.hpp"
#include "contest.hpp"
#include "restorers.hpp"

namespace gantry::bench {
namespace {

constexpr std::string_view kRestoreLine =
    "{:<34}{:>11}  {:<26}{:>7}{:>8}{:>12}{:>8}{:>9}{:>11}{:>11}  {}\n";

constexpr std::array kRestoredFrom = {kAsIs, kOneGb, kHalfGb};

std::size_t disk_of(std::string_view case_name) {
  for (std::size_t i = 1; i < kRestoredFrom.size(); ++i)
    if (case_name.ends_with(fmt::format("@{}", kRestoredFrom[i].name))) return i;
  return 0;
}

double value_of(const Report& report, const std::string& name, std::string_view subject,
                std::string_view metric) {
  const Row* const row = report.find(name, subject, metric);
  return row == nullptr ? 0 : row->summary.value;
}

/// Of one case, but for what its images are.
void add_times(const Report& report, Ratios& ratios, const std::string& name) {
  const Disk& disk = kRestoredFrom[disk_of(name)];
  const bool is_at_one = disk.name == kOneGb.name;
  const auto in_case = [&](std::string_view over, std::string_view under, const Bar& bar) {
    ratios.in_case(name, over, under, bar, kThroughput);
  };
  in_case(kRestore, kReap, Bar::at_least(1));
  in_case(kRestore, kReapOverlapped, is_at_one ? Bar::at_least(1.2) : Bar::none());
  in_case(kRestoreSmall, kReap, Bar::none());
  in_case(kRestoreSmall, kReapOverlapped, Bar::none());
  for (const std::string_view subject : {kRestore, kRestoreSmall})
    if (const Row* const touch = report.find(name, subject, kTouchP99))
      ratios.figure(fmt::format("{}: {}: ms for a page out of turn, p99", name, subject),
                    touch->summary.value / 1e6, Bar::at_most(1));
  const Row* const limit = report.find(name, kDirect, kThroughput);
  if (limit == nullptr || disk.bytes_per_second == 0) return;
  const double rate = static_cast<double>(disk.bytes_per_second) / 1e9;  // whether it was held
  ratios.figure(name + ": GB/s of limit/o-direct", limit->summary.value,
                {0.75 * rate, 1.25 * rate, fmt::format("about {}", rate)});
}

/// How much smaller its images are; the best of them.
double add_images(const Report& report, Ratios& ratios, const std::string& name) {
  double best = 0;
  for (const std::string_view subject : {kRestore, kRestoreSmall}) {
    const Row* const stored = report.find(name, subject, kStoredBytes);
    if (stored == nullptr) continue;
    const double all = static_cast<double>(stored->bytes) / stored->summary.value;
    ratios.figure(fmt::format("{}: {}: memory / image", name, subject), all, Bar::none());
    ratios.figure(fmt::format("{}: {}: memory without zero pages / image", name, subject),
                  value_of(report, name, subject, kNonzeroBytes) / stored->summary.value,
                  Bar::none());
    best = std::max(best, all);
  }
  return best;
}

}  // namespace

bool is_restore(std::string_view case_name) {
  return case_name.starts_with("restore/");
}

void add_restore_findings(Report& report) {
  Ratios ratios(report);
  double image = 0;
  std::array<double, kRestoredFrom.size()> best{};
  for (const std::string& name : cases_with(report, "restore/")) {
    add_times(report, ratios, name);
    const std::size_t disk = disk_of(name);
    const double ours = value_of(report, name, kRestore, kThroughput);
    const double reap = value_of(report, name, kReap, kThroughput);
    if (reap > 0) best[disk] = std::max(best[disk], ours / reap);
    if (disk == 0) image = std::max(image, add_images(report, ratios, name));
  }
  for (std::size_t i = 0; i < best.size(); ++i)
    if (best[i] > 0)
      ratios.figure(
          fmt::format("restore, disk {}: best {} / {}", kRestoredFrom[i].name, kRestore, kReap),
          best[i], Bar::at_least(1.55));
  if (image > 0) ratios.figure("restore: best memory / image", image, Bar::at_least(4.5));
}

std::string restore_heading(const std::string& case_name) {
  return fmt::format(kRestoreLine, case_name, "usable", "min .. max", "GB/s", "CPU s", "all there",
                     "CPU s", "peak MiB", "touch p50", "touch p99",
                     fmt::format("GB/s / {}", kReap));
}

std::string restore_line(const Report& report, const Row& row) {
  const auto figure = [&](std::string_view metric) {
    return value_of(report, row.case_name, row.subject, metric);
  };
  const auto time = [&](std::string_view metric) {
    return figure(metric) > 0 ? time_text(figure(metric)) : "-";
  };
  const double reap = value_of(report, row.case_name, kReap, kThroughput);
  return fmt::format(kRestoreLine, fmt::format("  {}", row.subject), time_text(row.summary.value),
                     range_text(row.summary), fmt::format("{:.2f}", figure(kThroughput)),
                     fmt::format("{:.2f}", figure(kCpuTime) / 1e9), time(kAllTime),
                     fmt::format("{:.2f}", figure(kAllCpuTime) / 1e9),
                     fmt::format("{:.0f}", figure(kPeakMemory) / (1 << 20)), time(kTouchP50),
                     time(kTouchP99),
                     reap > 0 ? fmt::format("{:.2f}x", figure(kThroughput) / reap) : "-");
}

}  // namespace gantry::bench
