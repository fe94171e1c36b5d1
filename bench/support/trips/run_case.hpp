#pragma once  // bench/support/trips/run_case.hpp: the subjects of a case against each other.

#include "../process/process_group.hpp"
#include "../report/report.hpp"
#include "subject.hpp"
#include "tools/command_line/progress.hpp"

namespace gantry::bench {

struct Plan {
  unsigned rounds = 7;
  std::chrono::nanoseconds round_time = std::chrono::milliseconds(35);  ///< Of one subject.
  CpuPair cpus;
  int interrupt_descriptor = -1;
  Bytes free_bytes = std::numeric_limits<Bytes>::max();  ///< Memory that may be used.
  /// What an interface has carried so far; set, each turn reports it a payload byte.
  std::function<Result<std::uint64_t>()> wire_bytes{};
};

/// A requester and the responders of each kind, forked and ready, one party a kind.
[[nodiscard]] Result<ProcessGroup> start_group(std::span<const SubjectKind> kinds, const Case& what,
                                               const CpuPair& cpus, int interrupt_descriptor);

/// Memory that a subject's processes need for a case, besides a fixed amount.
[[nodiscard]] double bytes_needed(const SubjectKind& kind, const Case& size);

/// Runs `size` with every kind that can: in each round each has its turn. All their processes are
/// there all the time, unless memory does not suffice for that: then they are made for each turn.
/// Appends figures to the report's rows, lost peers to those skipped; steps `progress` once a
/// round. Errors as ProcessGroup's.
[[nodiscard]] Result<void> run_case(const Case& size, std::span<const SubjectKind> kinds,
                                    const Plan& plan, cli::Progress& progress, Report& report);

}  // namespace gantry::bench
