#pragma once  // bench/engine/reshape/names.hpp: subjects and figures that findings speak of.

#include <string_view>

namespace gantry::bench {

inline constexpr std::string_view kReshaped = "gantry/reshape";  ///< By the policy.
inline constexpr std::string_view kCopyThenConvert = "copy-then-convert";
inline constexpr std::string_view kCopySource = "limit/copy-source";
inline constexpr std::string_view kReadSource = "limit/read-source";
inline constexpr std::string_view kConvertTime = "convert_time";
inline constexpr std::string_view kReadTime = "read_time";

}  // namespace gantry::bench
