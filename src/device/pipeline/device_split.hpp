#pragma once  // pipeline/device_split.hpp: splits the steps of a job among several devices.

#include <cstdint>
#include <gantry/pipeline.hpp>
#include <span>
#include <vector>

namespace gantry {

struct StepRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;  ///< Not included.
  [[nodiscard]] std::uint64_t count() const noexcept { return last - first; }
  friend bool operator==(const StepRange&, const StepRange&) noexcept = default;
};

/// Returns a range for each rate (steps in a time; none negative), in their order and without gaps;
/// its steps are in proportion to the rate. Rates that are all 0 count as equal. Borders lie at
/// multiples of `grain` steps of the job if there are enough of them.
[[nodiscard]] std::vector<StepRange> split_by_rate(StepRange steps, std::span<const double> rates,
                                                   std::uint64_t grain);

/// Runs only these steps of a checked job; halos reach beyond them.
[[nodiscard]] Result<PipelineReport> run_steps(Device& device, const PipelineJob& job,
                                               const PipelineOptions& options,
                                               const StepRange& steps);

}  // namespace gantry
