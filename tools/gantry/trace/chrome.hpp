#pragma once  // tools/gantry/trace/chrome.hpp: a trace in the format of Chrome, which Perfetto
              // loads.

#include <gantry/run/trace.hpp>
#include <string>

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

/// Writes what was recorded of `channel`, empty: of all. A track of each end, in the process that
/// has it; an arrow from each send to each arrival, and from an arrival to what its thread sent
/// because of it. docs/mechanisms/trace.md. Errors: `system`.
[[nodiscard]] Result<ChromeSummary> write_chrome(const trace::Trace& trace,
                                                 const std::string& channel,
                                                 const std::string& file);

}  // namespace gantry::cli
