#pragma once  // channel/status/status_text.hpp: numbers as this module's sentences show them.

#include <chrono>
#include <gantry/types.hpp>
#include <string>

namespace gantry {

[[nodiscard]] std::string bytes_text(Bytes bytes);                   ///< "1.5 MiB"
[[nodiscard]] std::string time_text(std::chrono::nanoseconds time);  ///< "3.2 s", "14 min"
[[nodiscard]] std::string count_text(std::uint64_t count,
                                     const char* one);  ///< "1 slot", "2 slots"

}  // namespace gantry
