#pragma once  // bench/support/rounds.hpp: subjects against each other, interleaved round by round.

#include "crew.hpp"
#include "progress.hpp"
#include "report.hpp"

namespace gantry::bench {

struct Plan {
  unsigned rounds = 7;
  std::chrono::nanoseconds round_time = std::chrono::milliseconds(35);  ///< Of one subject.
  CpuPair cpus;
  int interrupt_descriptor = -1;
};

/// Runs `size` with every kind: all processes are there, and in each round every pair has its
/// turn. Appends the figures to `rows`; steps `progress` once a round. Errors as Crew's.
[[nodiscard]] Result<void> run_case(const Case& size, std::span<const SubjectKind> kinds,
                                    const Plan& plan, Progress& progress, std::vector<Row>& rows);

}  // namespace gantry::bench
