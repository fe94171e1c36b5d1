#pragma once  // bench/pipeline/trace.hpp: runs as Perfetto shows them.

#include <gantry/pipeline.hpp>
#include <string>
#include <vector>

namespace gantry::bench {

struct TracedRun {
  std::string name;
  std::vector<ChunkTimes> timeline;
};

/// A document in Chrome's trace event format. Each run is a process of three tracks, its streams,
/// and two more for the host: filling the staging ring and taking results out of it. Times begin
/// with the run.
[[nodiscard]] std::string to_trace(const std::vector<TracedRun>& runs);

}  // namespace gantry::bench
