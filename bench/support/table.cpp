#include <fmt/format.h>

#include <array>

#include "report.hpp"
#include "sizes.hpp"

namespace gantry::bench {

std::string time_text(double ns) {
  if (ns < 10) return fmt::format("{:.2f} ns", ns);
  if (ns < 1e3) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e6) return fmt::format("{:.2f} us", ns / 1e3);
  return fmt::format("{:.2f} ms", ns / 1e6);
}

std::string range_text(const Summary& summary) {
  return fmt::format("{} .. {}", time_text(summary.min), time_text(summary.max));
}

std::string machine_line(const Report& report) {
  const MachineFacts& machine = report.machine;
  const std::string where =
      report.cpus.shared()
          ? fmt::format("both ends share CPU {}, the only one allowed", report.cpus.requester)
          : fmt::format("pinned to CPUs {} and {}", report.cpus.requester, report.cpus.responder);
  return fmt::format("{}, {} CPUs, {}; {}\n", machine.cpu_model, machine.cpus, machine.kernel,
                     where);
}

std::string skipped_lines(const Report& report) {
  std::string text;
  for (const Skipped& peer : report.skipped) {
    text += fmt::format("\nskipped: {}: {}", peer.subject, peer.reason);
  }
  return text.empty() ? text : text + "\n";
}

namespace {

/// A figure of a row, or "-" where the subject has none.
std::string figure_text(const Row* row, int digits) {
  return row == nullptr ? "-" : fmt::format("{:.{}f}", row->summary.value, digits);
}

std::string ratio_text(const Row& row, const Row* reference) {
  if (reference == nullptr || reference->summary.value <= 0) return "-";
  return fmt::format("{:.2f}x", row.summary.value / reference->summary.value);
}

constexpr std::string_view kLine = "{:<26}{:>10}  {:<24}{:>10}{:>9}{:>10}  {}\n";

std::string heading(const Row& row, std::string_view reference) {
  const std::string last = fmt::format("p50 / {}", reference);
  return fmt::format(kLine, row.case_name, "p50", "min .. max", "p99", "GB/s", "CPU s/GB", last);
}

std::string subject_line(const Report& report, const Row& row, std::string_view reference) {
  const auto find = [&](std::string_view metric) {
    return report.find(row.bytes, row.subject, metric);
  };
  const Row* const p99 = find(kLatencyP99);
  return fmt::format(kLine, "  " + row.subject, time_text(row.summary.value),
                     range_text(row.summary), p99 ? time_text(p99->summary.value) : "-",
                     figure_text(find(kThroughput), 2), figure_text(find(kCpuPerGb), 3),
                     ratio_text(row, report.find(row.bytes, reference, kLatencyP50)));
}

}  // namespace

std::string to_table(const Report& report, std::string_view reference) {
  std::string text = machine_line(report);
  Bytes bytes = 0;
  for (const Row& row : report.rows) {
    if (row.metric != kLatencyP50) continue;
    if (row.bytes != bytes) text += fmt::format("\n{}", heading(row, reference));
    bytes = row.bytes;
    text += subject_line(report, row, reference);
  }
  return text + skipped_lines(report);
}

}  // namespace gantry::bench
