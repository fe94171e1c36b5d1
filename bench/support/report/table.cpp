#include <fmt/format.h>

#include <array>

#include "report.hpp"

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

namespace {

/// A line for each library: the subjects that use it, its version, its file.
std::string peer_lines(const Report& report) {
  std::string text;
  for (std::size_t i = 0; i < report.peers.size();) {
    const PeerVersion& first = report.peers[i];
    std::string subjects = first.subject;
    for (++i; i < report.peers.size() && report.peers[i].version == first.version &&
              report.peers[i].library == first.library;
         ++i)
      subjects += ", " + report.peers[i].subject;
    text += fmt::format("{}: {}{}\n", subjects, first.version,
                        first.library.empty() ? "" : " (" + first.library + ")");
  }
  return text;
}

}  // namespace

std::string machine_line(const Report& report) {
  const MachineFacts& machine = report.machine;
  std::string where;
  if (report.cpus && report.cpus->shared())
    where = fmt::format("; both ends share CPU {}, the only one allowed", report.cpus->requester);
  else if (report.cpus)
    where =
        fmt::format("; pinned to CPUs {} and {}", report.cpus->requester, report.cpus->responder);
  return fmt::format("{}, {} CPUs, {}{}\n", machine.cpu_model, machine.cpus, machine.kernel,
                     where) +
         peer_lines(report);
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
std::string digits_text(const Row* row, int digits) {
  return row == nullptr ? "-" : fmt::format("{:.{}f}", row->summary.value, digits);
}

std::string ratio_text(const Row& row, const Row* reference) {
  if (reference == nullptr || reference->summary.value <= 0) return "-";
  return fmt::format("{:.2f}x", row.summary.value / reference->summary.value);
}

constexpr std::string_view kTripLine =
    "{:<27}{:>10}  {:<24}{:>10}{:>10}{:>10}{:>10}{:>9}{:>10}  {}\n";

std::string heading(const Row& row, std::string_view reference) {
  const bool queued = row.metric == kMessageTime;
  const std::string last = fmt::format("/ {}", reference);
  return fmt::format(kTripLine, row.case_name, queued ? "a message" : "p50", "min .. max", "p99",
                     "p99.9", "one way", "send", "GB/s", "CPU s/GB", last);
}

std::string subject_line(const Report& report, const Row& row, std::string_view reference) {
  const auto find = [&](std::string_view metric) {
    return report.find(row.case_name, row.subject, metric);
  };
  const auto time = [&](std::string_view metric) {
    const Row* const found = find(metric);
    return found == nullptr ? "-" : time_text(found->summary.value);
  };
  return fmt::format(kTripLine, "  " + row.subject, time_text(row.summary.value),
                     range_text(row.summary), time(kLatencyP99), time(kLatencyP999),
                     time(kOneWayP50), time(kSendP50), digits_text(find(kThroughput), 2),
                     digits_text(find(kCpuPerGb), 3),
                     ratio_text(row, report.find(row.case_name, reference, row.metric)));
}

}  // namespace

std::string to_table(const Report& report, std::string_view reference) {
  std::string text = machine_line(report);
  std::string case_name;
  for (const Row& row : report.rows) {
    if (row.metric != kLatencyP50 && row.metric != kMessageTime) continue;
    if (row.case_name != case_name) text += fmt::format("\n{}", heading(row, reference));
    case_name = row.case_name;
    text += subject_line(report, row, reference);
  }
  return text + skipped_lines(report);
}

}  // namespace gantry::bench
