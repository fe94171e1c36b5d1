#include "findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace gantry::bench {

Bar Bar::at_least(double figure) {
  Bar bar = said(fmt::format("at least {}", figure));
  bar.least = figure;
  return bar;
}

Bar Bar::at_most(double figure) {
  Bar bar = said(fmt::format("at most {}", figure));
  bar.most = figure;
  return bar;
}

Bar Bar::said(std::string text) {
  Bar bar;
  bar.text = std::move(text);
  return bar;
}

void Ratios::in_case(const std::string& case_name, std::string_view over, std::string_view under,
                     const Bar& bar, std::string_view metric) {
  of_rows(fmt::format("{}: {} / {}", case_name, over, under), report_.find(case_name, over, metric),
          report_.find(case_name, under, metric), bar);
}

void Ratios::of_cases(const std::string& over, const std::string& under, std::string_view subject,
                      const Bar& bar, std::string_view metric) {
  of_rows(fmt::format("{}: {} / {}", subject, over, under), report_.find(over, subject, metric),
          report_.find(under, subject, metric), bar);
}

void Ratios::of_rows(std::string what, const Row* over, const Row* under, const Bar& bar) {
  if (over == nullptr || under == nullptr || under->summary.value <= 0) return;
  figure(std::move(what), over->summary.value / under->summary.value, bar);
}

void Ratios::figure(std::string what, double value, const Bar& bar) {
  Finding finding{std::move(what), value, bar.text, std::nullopt};
  if (std::isfinite(bar.least) || std::isfinite(bar.most))
    finding.met = value >= bar.least && value <= bar.most;
  report_.findings.push_back(std::move(finding));
}

std::vector<std::string> cases_with(const Report& report, std::string_view prefix) {
  std::vector<std::string> cases;
  for (const Row& row : report.rows)
    if (row.case_name.starts_with(prefix) &&
        std::find(cases.begin(), cases.end(), row.case_name) == cases.end())
      cases.push_back(row.case_name);
  return cases;
}

namespace {

constexpr std::string_view kLine = "{:<46}{:>12}  {:<26}{}\n";

/// "12.3 M/s", "21.0 GB/s", "4.51 us", "0".
std::string figure_text(double value, std::string_view unit) {
  if (unit == "ns") return time_text(value);
  if (unit == "1/s") return fmt::format("{:.2f} M/s", value / 1e6);
  if (unit != "1") return fmt::format("{:.3g} {}", value, unit);
  return value == std::round(value) ? fmt::format("{:.0f}", value) : fmt::format("{:.3f}", value);
}

/// Figures that stand in the line of their subject's latency.
bool is_beside_latency(const Row& row) {
  constexpr std::array kBeside = {kThroughput, kCpuPerGb, kCallerCpuPerGb, kHelperCpuPerGb};
  return std::find(kBeside.begin(), kBeside.end(), row.metric) != kBeside.end();
}

std::string beside_latency(const Report& report, const Row& latency) {
  const auto find = [&](std::string_view metric) {
    return report.find(latency.case_name, latency.subject, metric);
  };
  std::string text;
  if (const Row* const row = find(kThroughput))
    text += "  " + figure_text(row->summary.value, row->unit);
  const Row* const caller = find(kCallerCpuPerGb);
  const Row* const helper = find(kHelperCpuPerGb);
  if (caller != nullptr && helper != nullptr)
    text += fmt::format("  CPU of caller, helpers: {:.3f}, {:.3f} s/GB", caller->summary.value,
                        helper->summary.value);
  return text;
}

std::string row_line(const Report& report, const Row& row, const std::string& reference) {
  const bool is_latency = row.metric == kLatencyP50;
  const Row* const ours = is_latency ? report.find(row.case_name, reference, kLatencyP50) : nullptr;
  const std::string ratio = ours == nullptr || ours->summary.value <= 0
                                ? ""
                                : fmt::format("{:.2f}x", row.summary.value / ours->summary.value);
  return fmt::format(
      kLine, is_latency ? "  " + row.subject : fmt::format("  {} ({})", row.subject, row.metric),
      figure_text(row.summary.value, row.unit),
      fmt::format("{} .. {}", figure_text(row.summary.min, row.unit),
                  figure_text(row.summary.max, row.unit)),
      ratio + (is_latency ? beside_latency(report, row) : ""));
}

}  // namespace

std::string to_list(const Report& report,
                    const std::function<std::string(const std::string&)>& reference_of) {
  std::string text;
  std::string case_name;
  std::string reference;
  for (const Row& row : report.rows) {
    if (row.case_name != case_name) {
      case_name = row.case_name;
      reference = reference_of(case_name);
      text += fmt::format("\n{}", fmt::format(kLine, case_name, "median", "min .. max",
                                              reference.empty() ? "" : "/ " + reference));
    }
    const bool is_said =
        is_beside_latency(row) && report.find(row.case_name, row.subject, kLatencyP50) != nullptr;
    if (!is_said) text += row_line(report, row, reference);
  }
  return text;
}

std::string findings_text(const Report& report) {
  if (report.findings.empty()) return {};
  std::string text = fmt::format("\n{:<84}{:>12}  wanted\n", "ratios of medians", "");
  for (const Finding& finding : report.findings) {
    const bool is_missed = finding.met.has_value() && !*finding.met;
    text += fmt::format("{:<84}{:>12.3f}  {}{}\n", finding.what, finding.value, finding.wanted,
                        is_missed ? ": missed" : "");
  }
  return text;
}

}  // namespace gantry::bench
