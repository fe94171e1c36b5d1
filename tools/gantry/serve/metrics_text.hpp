#pragma once  // tools/gantry/serve/metrics_text.hpp: a look as metrics, for Prometheus.

#include <string>

#include "serve/collector.hpp"

namespace gantry::cli {

/// False: this program was built without the library that writes them.
[[nodiscard]] bool has_metrics() noexcept;
inline constexpr std::string_view kNoMetrics = "this program was built without prometheus-cpp";
inline constexpr std::string_view kMendMetrics = "install prometheus-cpp-dev and build again";

/// In Prometheus' text format, version 0.0.4. A channel that does not answer has
/// gantry_channel_up 0, and nothing else.
[[nodiscard]] std::string metrics_text(const Snapshot& snapshot);
/// The same by OpenMetrics 1.0, where a counter's family is named without "_total".
[[nodiscard]] std::string as_open_metrics(const std::string& text);

}  // namespace gantry::cli
