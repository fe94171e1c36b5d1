#pragma once  // bench/overlap/settings.hpp: what a run of this benchmark was asked for.

#include <gantry/plan.hpp>
#include <string>
#include <vector>

#include "../support/program/options.hpp"
#include "collective_ranks.hpp"

namespace gantry::bench {

struct Settings {
  Options common;
  std::vector<Topology> topologies;
  std::vector<double> ratios;  ///< Of the time of communication to that of the product.
  OverlapOperator op;
  /// Of "schedules", "simulated", "collectives", "executor" and "devices".
  std::vector<std::string> cases;
  std::vector<std::string> devices;
  std::vector<std::string> types;  ///< Of elements, on devices.
  std::vector<RankPath> paths;     ///< Of collectives.
  std::vector<CollectiveKind> collectives;
  std::string prefix{};  ///< Of cases' names.
  bool all = false;      ///< Every point of the space, and not only those on its axes.
};

[[nodiscard]] std::string_view name_of(Topology topology) noexcept;  ///< "mesh", "switch"

[[nodiscard]] Manual manual(Settings& settings);

}  // namespace gantry::bench
