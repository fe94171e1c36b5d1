#include <algorithm>

#include "pipeline/caught.hpp"
#include "pipeline/job_check.hpp"
#include "pipeline/stage_conveyor.hpp"

namespace gantry {

Result<PipelineStageReport> run_stage(Device& device, const PipelineJob& job, Consumer& from,
                                      Producer& to, const PipelineOptions& options) {
  return caught([&]() -> Result<PipelineStageReport> {
    GANTRY_TRY(check_stage(job, options));
    const auto begin = Deadline::Clock::now();
    StageConveyor conveyor(device, job, options, from, to);
    GANTRY_TRY(conveyor.open());
    GANTRY_TRY(conveyor.run());
    PipelineStageReport report = conveyor.report();
    report.elapsed = Deadline::Clock::now() - begin;
    return report;
  });
}

}  // namespace gantry
