#include "table.hpp"

#include <fmt/format.h>

#include "../support/report/findings.hpp"
#include "limit.hpp"
#include "turns.hpp"

namespace gantry::bench {
namespace {

constexpr std::string_view kLine = "{:<34}{:>10}  {:<24}{:>7}{:>8}{:>10}{:>8}{:>11}  {}\n";

std::string heading(const std::string& case_name) {
  return fmt::format(kLine, case_name, "median", "min .. max", "GB/s", "s/GB", "overlap", "copies",
                     "page-lock", "chosen");
}

/// The first line of what the subject said.
std::string choice_of(const Report& report, const Row& row) {
  for (const Chosen& one : report.chosen)
    if (one.case_name == row.case_name && one.subject == row.subject)
      return one.text.substr(0, one.text.find('\n'));
  return {};
}

std::string subject_line(const Report& report, const Row& row) {
  const auto figure = [&](std::string_view metric) {
    const Row* const found = report.find(row.case_name, row.subject, metric);
    return found == nullptr ? 0 : found->summary.value;
  };
  if (row.subject == kSingleCopy)
    return fmt::format(kLine, fmt::format("  {}", row.subject), time_text(row.summary.value),
                       range_text(row.summary), fmt::format("{:.2f}", figure(kThroughput)), "", "",
                       "", "", "one CPU copies as much, once");
  const double acquisition = figure(kAcquisition);
  return fmt::format(kLine, fmt::format("  {}", row.subject), time_text(row.summary.value),
                     range_text(row.summary), fmt::format("{:.2f}", figure(kThroughput)),
                     fmt::format("{:.3f}", figure(kCpuPerGb)),
                     fmt::format("{:.0f} %", 100 * figure(kEfficiency)),
                     fmt::format("{:.0f} %", 100 * figure(kCopyShare)),
                     acquisition > 0 ? time_text(acquisition) : "-", choice_of(report, row));
}

std::string devices_text(const Report& report) {
  std::string text;
  for (const Chosen& one : report.chosen)
    if (one.case_name.empty()) text += fmt::format("{}\n", one.text);
  return text;
}

}  // namespace

std::string to_text(const Settings&, const Report& report) {
  std::string text = machine_line(report) + devices_text(report);
  std::string case_name;
  for (const Row& row : report.rows) {
    if (row.metric != kLatencyP50) continue;
    if (row.case_name != case_name) text += fmt::format("\n{}", heading(row.case_name));
    case_name = row.case_name;
    text += subject_line(report, row);
  }
  return text + skipped_lines(report) + findings_text(report);
}

}  // namespace gantry::bench
