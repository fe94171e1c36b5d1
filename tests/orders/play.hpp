#pragma once  // orders/play.hpp: one scenario under one schedule.

#include <string>
#include <vector>

#include "oracle/part.hpp"
#include "orders/stage.hpp"

namespace gantry::orders {

/// What of a run can be said afterwards. `failure`: empty if all held.
struct Outcome {
  std::string failure;
  std::string waits;  ///< Who waits for what, if the run did not end by itself.
  std::uint64_t choices = 0, switches = 0, faults = 0, trace = 0;
  std::vector<Decision> decisions;  ///< Only if asked for.
};

/// What a process of the harness needs for its runs: the stage, a board, a folder.
class Theatre {
 public:
  Theatre();
  ~Theatre();
  Theatre(const Theatre&) = delete;
  Theatre& operator=(const Theatre&) = delete;

  /// `plan`: for Strategy::plan, sorted by thread and step.
  Outcome play(const oracle::Scenario& scenario, const Settings& settings,
               const std::vector<Decision>& plan = {}, bool keeps_decisions = false);

 private:
  std::string folder_;
  oracle::Board* board_ = nullptr;
  oracle::Pulse* pulse_ = nullptr;
  oracle::Footprint footprint_;
};

/// The scenario of the oracle's seed, so small that a schedule of it takes milliseconds.
/// `keeps_options`: slots and history stay as the oracle has them.
[[nodiscard]] oracle::Scenario draw_small(std::uint64_t seed, bool keeps_options = false);
/// The strategy and the faults of a seed.
[[nodiscard]] Settings draw_settings(std::uint64_t seed, const oracle::Scenario& scenario);

/// "role 1 (consume), life 0, thread 3".
[[nodiscard]] std::string name_of_thread(const oracle::Scenario& scenario, unsigned thread);

}  // namespace gantry::orders
