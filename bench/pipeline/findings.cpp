#include "findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "../support/report/findings.hpp"
#include "turns.hpp"

namespace gantry::bench {
namespace {

constexpr double kCopiesCount = 0.2;  // of the time of the sequential run
constexpr double kBalanced = 0.6;     // of the three streams' sum, the longest at most

std::string subject_of(const Tool& tool, PipelineMode mode) {
  return fmt::format("{}/{}", tool.name, to_string(mode));
}

/// What is measured against `sequential`.
constexpr std::array kCompared = {PipelineMode::overlapped_pageable,
                                  PipelineMode::overlapped_pinned, PipelineMode::automatic};

double figure_of(const Report& report, const std::string& name, const std::string& subject,
                 std::string_view metric) {
  const Row* const row = report.find(name, subject, metric);
  return row == nullptr ? 0 : row->summary.value;
}

/// No stream of the device's takes much more than the others: overlap can show what it does.
bool is_balanced(const Report& report, const std::string& name, const Tool& tool) {
  const std::string subject = subject_of(tool, PipelineMode::sequential_pinned);
  std::array<double, 3> streams{};
  std::ranges::transform(
      std::array{kCopyIn, kCompute, kCopyOut}, streams.begin(),
      [&](std::string_view metric) { return figure_of(report, name, subject, metric); });
  const double sum = streams[0] + streams[1] + streams[2];
  return sum > 0 && std::ranges::max(streams) <= kBalanced * sum;
}

/// By CUDA's pinned runs; others have no bar of their own.
Bar bar_for(const Report& report, const std::string& name, const Tool& tool, PipelineMode mode) {
  const bool is_pinned = mode == PipelineMode::overlapped_pinned;
  if (!tool.is_cuda()) return Bar::at_least(0.97);
  return is_pinned && is_balanced(report, name, tool) ? Bar::at_least(2.5) : Bar::none();
}

void add_cases(Ratios& ratios, const Report& report, const Tool& tool) {
  const std::string sequential = subject_of(tool, PipelineMode::sequential);
  for (const std::string& name : cases_with(report, "")) {
    for (const PipelineMode mode : kCompared)
      ratios.in_case(name, subject_of(tool, mode), sequential, bar_for(report, name, tool, mode),
                     kThroughput);
    const auto way = [&](std::string_view one) { return fmt::format("{}/{}", tool.name, one); };
    ratios.in_case(name, way("pread"), way(kBlocking), Bar::none(), kThroughput);
    ratios.in_case(name, way("io_uring"), way(kBlocking), Bar::none(), kThroughput);
    ratios.in_case(name, way("io_uring"), way("pread"), Bar::none(), kThroughput);
    const std::string pinned = subject_of(tool, PipelineMode::overlapped_pinned);
    ratios.of_rows(fmt::format("{}: {} / {}, page-locking included", name, pinned, sequential),
                   report.find(name, sequential, kLatencyP50),
                   report.find(name, pinned, kWithAcquisition), Bar::none());
  }
}

/// Of those cases whose copies take a part of the sequential run that is worth hiding.
void add_means(Ratios& ratios, const Report& report, const Tool& tool) {
  const std::string sequential = subject_of(tool, PipelineMode::sequential);
  for (const PipelineMode mode : kCompared) {
    double logarithms = 0;
    unsigned cases = 0;
    for (const std::string& name : cases_with(report, "")) {
      const double ours = figure_of(report, name, subject_of(tool, mode), kThroughput);
      const double theirs = figure_of(report, name, sequential, kThroughput);
      if (ours <= 0 || theirs <= 0) continue;
      if (figure_of(report, name, sequential, kCopyShare) < kCopiesCount) continue;
      logarithms += std::log(ours / theirs);
      ++cases;
    }
    if (cases == 0) continue;
    ratios.figure(fmt::format("{} / {}: geometric mean of the {} cases with copies",
                              subject_of(tool, mode), to_string(PipelineMode::sequential), cases),
                  std::exp(logarithms / cases), Bar::at_least(1.25));
  }
}

void add_efficiency(Ratios& ratios, const Report& report, const Tool& tool) {
  if (!tool.is_cuda()) return;
  const std::string subject = subject_of(tool, PipelineMode::overlapped_pinned);
  for (const std::string& name : cases_with(report, ""))
    if (const Row* const row = report.find(name, subject, kEfficiency))
      ratios.figure(fmt::format("{}: overlap efficiency of {}", name, subject), row->summary.value,
                    is_balanced(report, name, tool) ? Bar::at_least(0.9) : Bar::none());
}

/// What was chosen beside the best that was set by hand.
void add_sweep(Ratios& ratios, const Report& report, const Tool& tool) {
  for (const std::string& name : cases_with(report, ""))
    for (const PipelineMode mode : {PipelineMode::automatic, PipelineMode::overlapped_pinned}) {
      const std::string chosen = subject_of(tool, mode);
      const Row* best = nullptr;
      for (const Row& row : report.rows)
        if (row.case_name == name && row.metric == kThroughput &&
            row.subject.starts_with(chosen + "/") &&
            (best == nullptr || row.summary.value > best->summary.value))
          best = &row;
      if (best == nullptr) continue;
      ratios.of_rows(fmt::format("{}: {} / {}", name, chosen, best->subject),
                     report.find(name, chosen, kThroughput), best, Bar::at_least(0.95));
    }
}

}  // namespace

void add_findings(Report& report, const std::vector<Tool>& tools) {
  Ratios ratios(report);
  for (const Tool& tool : tools) {
    add_cases(ratios, report, tool);
    add_efficiency(ratios, report, tool);
    add_sweep(ratios, report, tool);
  }
  for (const Tool& tool : tools) add_means(ratios, report, tool);
}

}  // namespace gantry::bench
