#pragma once  // bench/support/program/sizes.hpp: message sizes as people write and read them.

#include <functional>

#include "../report/report.hpp"

namespace gantry::bench {

inline constexpr Bytes kSmallestSize = 8;  ///< One word: less cannot be told apart when stale.

/// "64", "64K", "1M", "2G" (binary multiples; a trailing B or iB is accepted).
[[nodiscard]] Result<Bytes> parse_size(std::string_view text);

/// Sizes separated by commas, each once, in the order given.
[[nodiscard]] Result<std::vector<Bytes>> parse_sizes(std::string_view text);

/// "64 B", "1 MiB": the largest unit that divides it, exact.
[[nodiscard]] std::string format_size(Bytes size);

/// "needs 3.0 GiB of memory, of which 1.5 are free"; empty when that is not too much of it.
[[nodiscard]] std::string lack_of_memory(double needed, Bytes free);

/// Those sizes for which the machine has the memory that `needed` says; the others are skipped with
/// the reason. Errors: nothing is left.
[[nodiscard]] Result<std::vector<Bytes>> sizes_that_fit(const std::vector<Bytes>& sizes,
                                                        Report& report,
                                                        const std::function<double(Bytes)>& needed);

}  // namespace gantry::bench
