#pragma once  // bench/overlap/contest.hpp: schedules of one operator, taking turns.

#include "../support/report/report.hpp"
#include "rank_process.hpp"
#include "settings.hpp"
#include "tools/command_line/progress.hpp"

namespace gantry::bench {

inline constexpr std::string_view kProductAlone = "limit/product-alone";
inline constexpr std::string_view kTransferAlone = "limit/transfer-alone";
inline constexpr std::string_view kIdeal = "limit/ideal";
inline constexpr std::string_view kSerial = "serial";
inline constexpr std::string_view kRing = "ring";  ///< Shards, from neighbour to neighbour.
/// By costs measured beforehand, and runs of a few that promise most.
inline constexpr std::string_view kChosen = "chosen";
inline constexpr std::string_view kByCosts = "chosen-by-costs";  ///< Without such runs.
inline constexpr std::string_view kPredicted = "predicted_time";
inline constexpr std::string_view kCpu = "cpu_time";
inline constexpr std::string_view kShare = "share_of_ideal";

/// The schedules that are measured, serial and the ring of shards first.
[[nodiscard]] Result<std::vector<Schedule>> contestants(const Settings& settings);
[[nodiscard]] std::string case_name(const Settings& settings, Topology topology, double ratio);
[[nodiscard]] std::string subject_of(const Schedule& schedule);

/// Measures all cases of one topology. Errors: `interrupted`; those of a rank.
[[nodiscard]] Result<void> measure_topology(const Settings& settings, Topology topology,
                                            const std::vector<Schedule>& schedules,
                                            cli::Progress& progress, int interrupt_descriptor,
                                            Report& report);

}  // namespace gantry::bench
