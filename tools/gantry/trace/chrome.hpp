#pragma once  // tools/gantry/trace/chrome.hpp: a trace in the format of Chrome, which Perfetto
              // loads.

#include <gantry/runtime.hpp>
#include <string>

#include "tools/command_line/output_file.hpp"

namespace gantry::cli {

struct ChromeSummary {
  std::uint64_t processes = 0;
  std::uint64_t tracks = 0;
  std::uint64_t events = 0;
  std::uint64_t lost = 0;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t flows = 0;  ///< Arrivals of messages whose sending is in the trace.
};

/// Writes what was recorded of `channel`, empty: of all; with it the spans, ranks, links and queues
/// of the processes that have an end of it. Does not keep `file`. A track of each end, in the
/// process that has it; an arrow from each send to each arrival, and from an arrival to what its
/// thread sent because of it. docs/mechanisms/trace.md. Errors: `system`.
[[nodiscard]] Result<ChromeSummary> write_chrome(const trace::Trace& trace,
                                                 const std::string& channel, OutputWriter& file);

}  // namespace gantry::cli
