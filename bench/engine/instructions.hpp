#pragma once  // bench/engine/instructions.hpp: the calling thread's instructions, by callgrind.

#include "../support/process/callgrind.hpp"
#include "turns.hpp"

namespace gantry::bench {

/// Runs this program under callgrind for each engine and adds what the calling thread executed per
/// move; where there is no valgrind everything is skipped with the reason. Errors: `interrupted`.
[[nodiscard]] Result<void> count_instructions(const Settings& settings, Report& report,
                                              int interrupt_descriptor);

/// What is run there: arguments are the engine, the bytes and the number of moves. The status to
/// exit with.
[[nodiscard]] int run_counted(std::span<char* const> arguments);

}  // namespace gantry::bench
