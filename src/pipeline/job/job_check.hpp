#pragma once  // pipeline/job/job_check.hpp: refuses jobs that can never work before anything is
              // done.

#include <gantry/pipeline/pipeline.hpp>

namespace gantry {

/// Errors: `invalid_argument`, with the number of the argument and the figures.
[[nodiscard]] Result<void> check_job(const PipelineJob& job, const PipelineOptions& options);

/// The same for run_stage().
[[nodiscard]] Result<void> check_stage(const PipelineJob& job, const PipelineOptions& options);

/// True if an output lies where an input does: what was written cannot be read again.
[[nodiscard]] bool overwrites_inputs(const PipelineJob& job) noexcept;

/// True if no other argument reads what this one writes, or writes what it reads.
[[nodiscard]] bool is_apart(const PipelineJob& job, const PipelineJob::Argument& array) noexcept;

}  // namespace gantry
