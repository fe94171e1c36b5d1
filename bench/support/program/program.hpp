#pragma once  // bench/support/program/program.hpp: what main() of every benchmark does around
              // measuring.

#include <functional>
#include <string>

#include "../system/posix.hpp"

namespace gantry::bench {

/// Measures and gives the text to print. Errors: `interrupted` once the descriptor is readable.
using Measurement = std::function<Result<std::string>(int interrupt_descriptor)>;

/// Calls `parse`, then what it gave, and prints that. The status to exit with: 0; 1 after one line
/// of complaint; 130 when interrupted; what `parse` says instead. Nothing is thrown out of it.
[[nodiscard]] int run_program(std::string_view name,
                              const std::function<tl::expected<Measurement, int>()>& parse);

}  // namespace gantry::bench
