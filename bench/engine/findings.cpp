// The ratios that matter, and what was wanted of them.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "../support/report/findings.hpp"
#include "movers.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kKiB = Bytes{1} << 10;
constexpr Bytes kMiB = Bytes{1} << 20;
constexpr Bytes kGiB = Bytes{1} << 30;
constexpr std::array<std::string_view, 3> kFixed = {"gantry/inline", "gantry/thread", "gantry/dsa"};

std::string prefix(std::string_view part) {
  return fmt::format("{}/", part);
}

Bytes bytes_of(const Report& report, const std::string& case_name) {
  const auto row = std::find_if(report.rows.begin(), report.rows.end(),
                                [&](const Row& one) { return one.case_name == case_name; });
  return row == report.rows.end() ? 0 : row->bytes;
}

/// `bar` where the size is the one that was spoken of, nothing elsewhere.
Bar at_size(Bytes bytes, Bytes low, Bytes high, const Bar& bar) {
  return bytes >= low && bytes <= high ? bar : Bar::none();
}

Bar copier_bar(Bytes bytes) {
  if (bytes == 256 * kMiB) return Bar::at_least(1.25);
  return at_size(bytes, 64, std::has_single_bit(bytes) ? 16 * kMiB : 0, Bar::at_least(0.97));
}

void add_copy(Ratios& ratios, const Report& report) {
  for (const std::string& name : cases_with(report, prefix(kCopy)))
    ratios.in_case(name, kCopier, kMemcpy, copier_bar(bytes_of(report, name)), kThroughput);
  for (const std::string& name : cases_with(report, prefix(kCopy)))
    ratios.in_case(name, kFixed[0], kMemcpy, Bar::none(), kThroughput);
}

/// The policy beside the fixed engine that was the quickest in that case.
void add_choice(Ratios& ratios, const Report& report, std::string_view part) {
  for (const std::string& name : cases_with(report, prefix(part))) {
    const Row* best = nullptr;
    for (const std::string_view subject : kFixed) {
      const Row* const row = report.find(name, subject, kLatencyP50);
      if (row != nullptr && (best == nullptr || row->summary.value < best->summary.value))
        best = row;
    }
    if (best == nullptr) continue;
    ratios.of_rows(fmt::format("{}: gantry/auto / {}", name, best->subject),
                   report.find(name, "gantry/auto", kLatencyP50), best, Bar::at_most(1.1));
  }
}

void add_async(Ratios& ratios, const Report& report) {
  for (const std::string& name : cases_with(report, prefix(kAsync))) {
    const Bytes bytes = bytes_of(report, name);
    for (const std::string_view how : {"computing", "sleeping"}) {
      const std::string subject = fmt::format("gantry/thread/{}", how);
      ratios.of_rows(fmt::format("{}: CPU of the caller of {} / time of memcpy", name, subject),
                     report.find(name, subject, kCallerCpu),
                     report.find(name, kMemcpy, kLatencyP50),
                     at_size(bytes, 64 * kMiB, 64 * kMiB, Bar::at_most(0.02)));
      ratios.in_case(name, subject, kFixed[0],
                     at_size(bytes, 64 * kMiB, 64 * kMiB, Bar::at_most(1.1)), kTotalCpu);
    }
  }
}

void add_idle(Ratios& ratios, const Report& report) {
  for (const std::string& name : cases_with(report, prefix(kIdle)))
    if (const Row* const row = report.find(name, "gantry/all-engines", kHelperCpu))
      ratios.figure(fmt::format("{}: CPU time of all threads but the sleeping caller, ns", name),
                    row->summary.value, Bar::at_most(0));
}

void add_fairness(Ratios& ratios, const Report& report) {
  constexpr double kUs = 1e3;
  for (const std::string& name : cases_with(report, prefix(kFairness)))
    for (const Row& row : report.rows)
      if (row.case_name == name && row.metric == kLatencyP99)
        ratios.figure(fmt::format("{}: p99 of {}, us", name, row.subject), row.summary.value / kUs,
                      at_size(row.bytes, kGiB, kGiB, Bar::at_most(200)));
}

/// What wait() has to be said to do, at sizes that leave no doubt.
Bar explained_bar(Bytes bytes) {
  if (bytes <= 64 * kKiB) return Bar::at_least(1);
  return bytes >= 16 * kMiB ? Bar::at_most(0) : Bar::none();
}

void add_waiting(Ratios& ratios, const Report& report) {
  for (const std::string& name : cases_with(report, prefix(kWaiting))) {
    const Bytes bytes = bytes_of(report, name);
    for (const std::string_view engine : {kFixed[1], kFixed[2]}) {
      const std::string hybrid = fmt::format("{}/hybrid", engine);
      const std::string poll = fmt::format("{}/poll", engine);
      ratios.in_case(name, hybrid, poll, at_size(bytes, 16 * kMiB, kGiB, Bar::at_most(1.03)));
      const double share = bytes >= 64 * kMiB ? 0.15 : 0.3;
      ratios.of_rows(fmt::format("{}: waiting CPU of {} / {}", name, hybrid, poll),
                     report.find(name, hybrid, kWaitingCpu), report.find(name, poll, kWaitingCpu),
                     at_size(bytes, 16 * kMiB, kGiB, Bar::at_most(share)));
      if (const Row* const row = report.find(name, engine, "explained_poll"))
        ratios.figure(fmt::format("{}: explain() of {} says that it polls", name, engine),
                      row->summary.value, explained_bar(bytes));
    }
  }
}

void add_cache(Ratios& ratios, const Report& report) {
  for (const std::string& name : cases_with(report, prefix(kCache)))
    for (const std::string_view use : {"reader_soon", "streaming"})
      ratios.in_case(name, "gantry/inline/automatic", fmt::format("gantry/inline/{}", use),
                     Bar::none());
}

/// The worst of all cases speaks for them.
void add_explained(Ratios& ratios, const Report& report) {
  const Row* worst = nullptr;
  for (const Row& row : report.rows)
    if (row.metric == "explained_as_counted" &&
        (worst == nullptr || row.summary.min < worst->summary.min))
      worst = &row;
  if (worst != nullptr)
    ratios.figure(fmt::format("{}: moves counted where they were explained, the worst of all cases",
                              worst->case_name),
                  worst->summary.min, Bar::at_least(1));
}

}  // namespace

void add_findings(Report& report) {
  Ratios ratios(report);
  add_copy(ratios, report);
  add_choice(ratios, report, kCopy);
  add_choice(ratios, report, kQueued);
  add_async(ratios, report);
  add_idle(ratios, report);
  add_fairness(ratios, report);
  add_waiting(ratios, report);
  add_cache(ratios, report);
  add_explained(ratios, report);
}

}  // namespace gantry::bench
