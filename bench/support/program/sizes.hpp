#pragma once  // bench/support/program/sizes.hpp: message sizes as people write and read them.

#include <gantry/types.hpp>
#include <string>
#include <vector>

namespace gantry::bench {

inline constexpr Bytes kSmallestSize = 8;  ///< One word: less cannot be told apart when stale.

/// "64", "64K", "1M", "2G" (binary multiples; a trailing B or iB is accepted).
[[nodiscard]] Result<Bytes> parse_size(std::string_view text);

/// Sizes separated by commas, each once, in the order given.
[[nodiscard]] Result<std::vector<Bytes>> parse_sizes(std::string_view text);

/// "64 B", "1 MiB": the largest unit that divides it, exact.
[[nodiscard]] std::string format_size(Bytes size);

}  // namespace gantry::bench
