#pragma once  // bench/memory/contest.hpp: contestants in processes of their own, round by round.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../support/process/child.hpp"
#include "../support/report/report.hpp"
#include "tools/command_line/progress.hpp"

namespace gantry::bench {

/// What a contestant does again and again, in its process.
class Runner {
 public:
  virtual ~Runner() = default;
  /// Makes `trips` of them; gives what one of them took, in ns (or in the contestant's own unit).
  virtual Result<double> run(std::uint64_t trips) = 0;
};

/// What is reported of a contestant, made of what its runner gave for a trip.
struct Reading {
  std::string_view metric = kLatencyP50;
  std::string_view unit = "ns";
  std::function<double(double)> figure = [](double trip) { return trip; };
};

struct Contestant {
  std::string case_name;
  std::string subject;
  Bytes bytes = 0;
  std::function<Result<std::unique_ptr<Runner>>()> open{};  ///< Called in its process.
  std::vector<Reading> readings = {Reading{}};
  bool counts_once = false;  ///< One trip a round and no warming up: a trip is dear or a count.
};

/// Contestants that are measured at the same time.
struct Contest {
  std::string label;  ///< For the person who waits.
  std::vector<Contestant> contestants;
  unsigned rounds = 1;
  std::chrono::nanoseconds round_time = std::chrono::milliseconds(15);  ///< Of one contestant.
  Bytes memory_bytes = 0;  ///< What all of them need at a time, about.
};

struct ContestPlan {
  int cpu = 0;  ///< Where a process begins.
  int interrupt_descriptor = -1;
};

/// Forks them all; then in each round everyone has its turn while the others sleep. Appends what
/// they gave to `report`; one that gives up, or all when memory is short, to what was skipped.
/// Steps `progress` once a round. Errors: `interrupted`; `peer_gone` when a process died.
[[nodiscard]] Result<void> run_contest(const Contest& contest, const ContestPlan& plan,
                                       cli::Progress& progress, Report& report);

/// Opens it once in a process of its own; why it cannot be, or nothing.
[[nodiscard]] Result<std::optional<std::string>> try_open(const Contestant& contestant,
                                                          const ContestPlan& plan);

}  // namespace gantry::bench
