// What a person reads: every figure in a table, then the ratios that were asked for.

#include <fmt/format.h>

#include <set>

#include "../support/sizes.hpp"
#include "settings.hpp"
#include "subjects.hpp"
#include "transfers.hpp"

namespace gantry::bench {
namespace {

constexpr std::string_view kLine = "{:<38}{:>12}  {:<26}{}\n";

std::string reference_of(const Report& report, const std::string& case_name) {
  for (const std::string_view subject : {kPoolEager, kPoolReuse})
    if (report.find(case_name, subject, kLatencyP50) != nullptr) return std::string(subject);
  return {};
}

/// "12.3 M/s", "21.0 GB/s", "0": a figure that is no time.
std::string figure_text(double value, std::string_view unit) {
  if (unit == "1/s") return fmt::format("{:.2f} M/s", value / 1e6);
  return unit == "1" ? fmt::format("{:.0f}", value) : fmt::format("{:.2f} {}", value, unit);
}

std::string row_line(const Report& report, const Row& row, const std::string& reference) {
  if (row.metric != kLatencyP50)
    return fmt::format(kLine, fmt::format("  {} ({})", row.subject, row.metric),
                       figure_text(row.summary.value, row.unit),
                       fmt::format("{} .. {}", figure_text(row.summary.min, row.unit),
                                   figure_text(row.summary.max, row.unit)),
                       "");
  const Row* const ours = report.find(row.case_name, reference, kLatencyP50);
  const std::string ratio = ours == nullptr || ours->summary.value <= 0
                                ? ""
                                : fmt::format("{:.2f}x", row.summary.value / ours->summary.value);
  return fmt::format(kLine, "  " + row.subject, time_text(row.summary.value),
                     range_text(row.summary), ratio);
}

std::string tables(const Report& report) {
  std::string text;
  std::string case_name;
  std::string reference;
  for (const Row& row : report.rows) {
    if (row.case_name != case_name) {
      case_name = row.case_name;
      reference = reference_of(report, case_name);
      text += fmt::format("\n{}", fmt::format(kLine, case_name, "median", "min .. max",
                                              reference.empty() ? "" : "/ " + reference));
    }
    const bool is_said_by_latency = row.metric == kThroughput &&
                                    report.find(row.case_name, row.subject, kLatencyP50) != nullptr;
    if (!is_said_by_latency) text += row_line(report, row, reference);
  }
  return text;
}

/// One ratio: what it is of, and what it has to be.
class Ratios {
 public:
  explicit Ratios(const Report& report) : report_(report) {}

  /// value(`over`) / value(`under`) in one case, when both are there. `wanted`: "at least 200".
  void in_case(const std::string& case_name, std::string_view over, std::string_view under,
               std::string_view wanted, std::string_view metric = kLatencyP50) {
    add(fmt::format("{}: {} / {}", case_name, over, under), report_.find(case_name, over, metric),
        report_.find(case_name, under, metric), wanted);
  }
  /// The same subject in two cases.
  void of_cases(const std::string& over, const std::string& under, std::string_view subject,
                std::string_view wanted, std::string_view metric) {
    add(fmt::format("{}: {} / {}", subject, over, under), report_.find(over, subject, metric),
        report_.find(under, subject, metric), wanted);
  }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  void add(const std::string& what, const Row* over, const Row* under, std::string_view wanted) {
    if (over == nullptr || under == nullptr || under->summary.value <= 0) return;
    text_ += fmt::format("{:<84}{:>12.2f}  {}\n", what, over->summary.value / under->summary.value,
                         wanted);
  }

  const Report& report_;
  std::string text_;
};

void add_block_ratios(Ratios& ratios, const std::string& registrar,
                      const std::vector<Bytes>& sizes) {
  const auto fixed = [&](Bytes bytes) {
    return case_of(registrar, "fixed/" + format_size(bytes), 1);
  };
  constexpr Bytes kMiB = Bytes{1} << 20;
  ratios.in_case(fixed(kMiB), kRegister, kPoolEager, "at least 200 (uring)");
  ratios.in_case(fixed(64 * kMiB), kRegister, kPoolEager, "at least 10000 (uring)");
  for (const Bytes bytes : sizes)
    ratios.in_case(fixed(bytes), kPoolEager, kMalloc64, "at most 3, from 8 KiB");
  for (const Bytes bytes : sizes) ratios.in_case(fixed(bytes), kPoolEager, kLruCache, "at most 1");
  ratios.in_case(fixed(Bytes{2} << 10), kPoolEager, kMalloc, "at most 2");
}

/// Cases that begin so, each once, as they were run.
std::vector<std::string> cases_with(const Report& report, std::string_view prefix) {
  std::vector<std::string> cases;
  for (const Row& row : report.rows)
    if (row.case_name.starts_with(prefix) && (cases.empty() || cases.back() != row.case_name))
      cases.push_back(row.case_name);
  return cases;
}

void add_scaling_ratios(Ratios& ratios, const Report& report) {
  std::set<std::string> seen;
  for (const std::string& name : cases_with(report, "scaling/")) {
    const std::string one = name.substr(0, name.find('/', sizeof "scaling/"));
    if (one == name || !seen.insert(name).second) continue;
    const bool most = name.ends_with("4 threads");
    for (const std::string_view subject : {kPoolEager, kMalloc})
      ratios.of_cases(name, one, subject,
                      most && subject == kPoolEager ? "at least 3 on 4 cores, 1.6 on 2" : "",
                      kThroughput);
  }
}

}  // namespace

std::string to_text(const Report& report, const Settings& settings) {
  Ratios ratios(report);
  for (const std::string& registrar : settings.registrars)
    add_block_ratios(ratios, registrar, settings.common.sizes);
  add_scaling_ratios(ratios, report);
  for (const std::string& name : cases_with(report, "touch/"))
    ratios.in_case(name, "gantry/touch-one-thread", "gantry/touch-all-cores",
                   "at least 1.6 on 2 cores");
  for (const std::string& name : cases_with(report, "transfer/"))
    for (const std::string_view other : {kUnregistered, kRegisterEachTransfer})
      ratios.in_case(name, kPoolReuse, other, "at most 1");
  const std::string end =
      ratios.text().empty()
          ? ""
          : fmt::format("\n{:<84}{:>12}  wanted\n", "ratios of medians", "") + ratios.text();
  return machine_line(report) + tables(report) + skipped_lines(report) + end;
}

}  // namespace gantry::bench
