#pragma once  // orders/shrink.hpp: makes a failing schedule small, and tells it.

#include "orders/play.hpp"

namespace gantry::orders {

struct Failing {
  oracle::Scenario scenario;
  Settings settings;
  std::vector<Decision> plan;
  Outcome outcome;
  unsigned runs = 0;  ///< that it took to make it so small
};

/// The least that still fails, by at most so many runs. Empty `outcome.failure`: nothing failed.
[[nodiscard]] Failing shrink(Theatre& theatre, const oracle::Scenario& scenario,
                             const Settings& settings, unsigned most_runs);

/// Where two runs part that should be one.
[[nodiscard]] std::string difference(const Outcome& one, const Outcome& other);

/// One choice a line: the process, the step, its place in the source.
[[nodiscard]] std::string tell(const Failing& failing);

/// Replaces each "@0x..." by a file and a line.
[[nodiscard]] std::string with_places(const std::string& text);

}  // namespace gantry::orders
