#pragma once  // tools/gantry/run/process/rank_hosts.hpp: hosts that are ranks of the run's own job.

#include "run/file/pipeline.hpp"

namespace gantry::run {

/// Rank 0, before anything starts: tells all ranks which of them are hosts of the pipeline, and
/// gives those hosts their launchers. Null: none of them is, since the run cannot be. Without
/// ranks it only looks for hosts that would need some. Errors name the place in the file.
[[nodiscard]] Result<void> meet_ranks(Pipeline* pipeline);

/// Another rank: waits that long for rank 0 and makes its connection standard input and output, as
/// an agent has them. False: it is no host of this run.
[[nodiscard]] Result<bool> wait_as_rank(std::chrono::nanoseconds patience);

/// The launcher of such a host: carries standard input to the rank that waits at `address`
/// (HOST:PORT) and what comes back to standard output, until that ends.
[[nodiscard]] Result<void> reach_rank(const std::string& address);

}  // namespace gantry::run
