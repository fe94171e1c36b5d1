#pragma once  // tools/gantry/look/serve/metrics_text.hpp: a look as metrics, for Prometheus.

#include <string>

#include "look/serve/collector.hpp"
#include "metrics_support.hpp"

namespace gantry::cli {

/// In Prometheus' text format, version 0.0.4. A channel that does not answer has
/// gantry_channel_up 0, and nothing else.
[[nodiscard]] std::string metrics_text(const Snapshot& snapshot);
/// The same by OpenMetrics 1.0, where a counter's family is named without "_total".
[[nodiscard]] std::string as_open_metrics(const std::string& text);

}  // namespace gantry::cli
