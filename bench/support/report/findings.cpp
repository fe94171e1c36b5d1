#include "findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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
  const Row* const upper = report_.find(case_name, over, metric);
  of_subjects(fmt::format("{}: {} / {}", case_name, over, under), upper,
              report_.find(case_name, under, metric), upper == nullptr ? over : under, bar);
}

void Ratios::of_cases(const std::string& over, const std::string& under, std::string_view subject,
                      const Bar& bar, std::string_view metric) {
  of_rows(fmt::format("{}: {} / {}", subject, over, under), report_.find(over, subject, metric),
          report_.find(under, subject, metric), bar);
}

void Ratios::of_subjects(std::string what, const Row* over, const Row* under,
                         std::string_view missing, const Bar& bar) {
  if ((over == nullptr) == (under == nullptr)) return of_rows(std::move(what), over, under, bar);
  const auto is_missing = [&](const auto& one) { return one.subject == missing; };
  const bool is_known = std::ranges::any_of(report_.rows, is_missing) ||
                        std::ranges::any_of(report_.skipped, is_missing);
  if (is_known && bar.is_judged())
    report_.findings.push_back({std::move(what), 0, bar.text, false, false});
}

void Ratios::of_rows(std::string what, const Row* over, const Row* under, const Bar& bar) {
  if (over == nullptr || under == nullptr || under->summary.value <= 0) return;
  figure(std::move(what), over->summary.value / under->summary.value, bar);
}

void Ratios::figure(std::string what, double value, const Bar& bar) {
  Finding finding{std::move(what), value, bar.text, std::nullopt};
  if (bar.is_judged()) finding.met = value >= bar.least && value <= bar.most;
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

std::optional<Error> missed_bars(const Report& report) {
  const auto is_missed = [](const Finding& one) { return one.met == std::optional(false); };
  const auto first = std::find_if(report.findings.begin(), report.findings.end(), is_missed);
  if (first == report.findings.end()) return std::nullopt;
  const auto judged = std::count_if(report.findings.begin(), report.findings.end(),
                                    [](const Finding& one) { return one.met.has_value(); });
  return Error{
      Code::aborted,
      fmt::format("--judge: {} of {} bars are missed, the first: {} is {}, wanted {}",
                  std::count_if(first, report.findings.end(), is_missed), judged, first->what,
                  first->is_measured ? fmt::format("{:.3f}", first->value) : "not measured",
                  first->wanted),
      "see the findings; figures hold for a quiet machine"};
}

std::string findings_text(const Report& report) {
  if (report.findings.empty()) return {};
  std::string text = fmt::format("\n{:<84}{:>12}  wanted\n", "ratios of medians", "");
  for (const Finding& finding : report.findings) {
    const bool is_missed = finding.met.has_value() && !*finding.met;
    text += fmt::format("{:<84}{:>12}  {}{}\n", finding.what,
                        finding.is_measured ? fmt::format("{:.3f}", finding.value) : "-",
                        finding.wanted,
                        !finding.is_measured ? ": not measured"
                        : is_missed          ? ": missed"
                                             : "");
  }
  return text;
}

}  // namespace gantry::bench
