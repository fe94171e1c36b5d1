#pragma once  // tools/gantry/metrics_support.hpp: whether `gantry serve` can give metrics.

#include <string_view>

namespace gantry::cli {

/// False: built without the library that writes them.
#ifdef GANTRY_HAVE_PROMETHEUS
inline constexpr bool kHasMetrics = true;
#else
inline constexpr bool kHasMetrics = false;
#endif
inline constexpr std::string_view kNoMetrics = "this program was built without prometheus-cpp";
inline constexpr std::string_view kMendMetrics = "install prometheus-cpp-dev and build again";

}  // namespace gantry::cli
