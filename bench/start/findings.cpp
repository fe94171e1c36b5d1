// What a person reads: every figure in a table, then the ratios that were asked for.

#include <fmt/format.h>

#include "../support/report/findings.hpp"
#include "estimates.hpp"
#include "loaders.hpp"
#include "restore/contest.hpp"
#include "settings.hpp"

namespace gantry::bench {
namespace {

constexpr std::string_view kLine = "{:<30}{:>11}  {:<26}{:>7}{:>10}{:>10}{:>10}{:>11}  {}\n";

/// What rates are compared with: in `keep` there is no gantry/plain.
std::string_view reference_of(const Report& report, const std::string& case_name) {
  return report.find(case_name, kPlain, kThroughput) != nullptr ? kPlain : kReadCopy;
}

std::string heading(const Report& report, const std::string& case_name) {
  return fmt::format(kLine, case_name, "median", "min .. max", "GB/s", "CPU s", "s/GB", "peak GiB",
                     "usable", fmt::format("GB/s / {}", reference_of(report, case_name)));
}

std::string subject_line(const Report& report, const Row& row) {
  const auto figure = [&](std::string_view subject, std::string_view metric) {
    const Row* const found = report.find(row.case_name, subject, metric);
    return found == nullptr ? 0 : found->summary.value;
  };
  const Row* const usable = report.find(row.case_name, row.subject, kUsableTime);
  const double rate = figure(row.subject, kThroughput);
  const double reference = figure(reference_of(report, row.case_name), kThroughput);
  return fmt::format(kLine, fmt::format("  {}", row.subject), time_text(row.summary.value),
                     range_text(row.summary), fmt::format("{:.2f}", rate),
                     fmt::format("{:.2f}", figure(row.subject, kCpuTime) / 1e9),
                     fmt::format("{:.3f}", figure(row.subject, kCpuPerGb)),
                     fmt::format("{:.2f}", figure(row.subject, kPeakMemory) / (1 << 30)),
                     time_text(usable == nullptr ? row.summary.value : usable->summary.value),
                     reference > 0 ? fmt::format("{:.2f}x", rate / reference) : "-");
}

std::string chosen_lines(const Report& report) {
  std::string text;
  for (const Chosen& one : report.chosen)
    text += fmt::format("\n{}: {}: {}", one.case_name, one.subject, one.text);
  return text.empty() ? text : text + "\n";
}

/// What is kept against what each worker reads for itself.
void add_keep_findings(const Report& report, Ratios& ratios, Bytes bytes, unsigned workers) {
  const std::string name = case_of(bytes, workers);
  for (const std::string_view subject : {kAttach, kAttachHuge}) {
    const Row* const usable = report.find(name, subject, kUsableTime);
    if (usable == nullptr) continue;
    ratios.figure(fmt::format("{}: ms until {} is usable", name, subject),
                  usable->summary.value / 1e6, Bar::at_most(5));
    ratios.in_case(name, subject, kReadCopy, Bar::at_least(subject == kAttach ? 1 : 10),
                   kThroughput);
    ratios.in_case(name, subject, kReadCopyHuge, Bar::none(), kThroughput);
    const Row* const memory = report.find(name, subject, kPeakMemory);
    ratios.figure(fmt::format("{}: memory of {} / one image", name, subject),
                  memory->summary.value / static_cast<double>(bytes),
                  workers == kKeepWorkers.back() ? Bar::at_most(1.02) : Bar::none());
  }
}

}  // namespace

void add_findings(Report& report, const Settings& settings) {
  Ratios ratios(report);
  const auto in_case = [&](const std::string& name, std::string_view over, std::string_view under,
                           const Bar& bar) { ratios.in_case(name, over, under, bar, kThroughput); };
  for (const Bytes bytes : settings.common.sizes) {
    for (const unsigned workers : kKeepWorkers) add_keep_findings(report, ratios, bytes, workers);
    const std::string large = case_of(kLarge.case_name, bytes, kAsIs);
    const std::string small = case_of(kSmall.case_name, bytes, kAsIs);
    in_case(large, kPlain, kDirect, Bar::at_least(0.95));
    in_case(large, kPlain, kMmap, Bar::at_least(1.25));
    in_case(large, kPlain, kReadCopyHuge, Bar::none());
    in_case(small, kPlain, kTorchLike, Bar::at_least(3));
    ratios.of_cases(small, large, kPlain, Bar::at_least(0.9), kThroughput);
    for (const Shape& shape : {kLarge, kSmall}) {
      const std::string held = case_of(shape.case_name, bytes, kOneGb);
      in_case(case_of(shape.case_name, bytes, kAsIs), kAuto, kPlain, Bar::at_least(0.95));
      in_case(held, kCompressed, kPlain, Bar::at_least(1.3));
      in_case(held, kAuto, kPlain, Bar::at_least(1.3));
      in_case(held, kPlain, kDirect, Bar::none());
      for (const Disk& disk : {kOneGb, kHalfGb})  // whether it was held, but for a first burst
        if (const Row* const row =
                report.find(case_of(shape.case_name, bytes, disk), kDirect, kThroughput))
          ratios.figure(row->case_name + ": GB/s of limit/o-direct", row->summary.value,
                        Bar::at_most(1.25 * static_cast<double>(disk.bytes_per_second) / 1e9));
    }
  }
  add_restore_findings(report);
  add_estimate_findings(report);
}

std::string to_text(const Settings&, const Report& report) {
  std::string text = machine_line(report);
  std::string case_name;
  for (const Row& row : report.rows) {
    if (row.metric != kLatencyP50) continue;
    const bool restored = is_restore(row.case_name);
    if (row.case_name != case_name)
      text += "\n" + (restored ? restore_heading(row.case_name) : heading(report, row.case_name));
    case_name = row.case_name;
    text += restored ? restore_line(report, row) : subject_line(report, row);
  }
  return text + chosen_lines(report) + skipped_lines(report) + findings_text(report);
}

}  // namespace gantry::bench
