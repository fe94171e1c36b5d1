#pragma once  // bench/support/process/callgrind.hpp: counting what a program executes in functions
              // that it names.

#include <optional>
#include <string>
#include <vector>

#include "../system/posix.hpp"

namespace gantry::bench {

/// The file of the running program.
[[nodiscard]] std::string own_path();

/// What stands before a program's own words so that callgrind counts it in functions that begin
/// with `function`, and in what these call; `into`: a folder that gets the counts.
[[nodiscard]] std::vector<std::string> callgrind_words(const std::string& function,
                                                       const std::string& into);
/// What all processes that have ended left in that folder; nothing when that is nothing. Empties
/// it.
[[nodiscard]] std::optional<double> take_count(const std::string& from);

/// A program that runs until it ends or is interrupted; then it is killed. Its status, -1: none.
[[nodiscard]] Result<int> run_to_end(std::vector<std::string> words, int interrupt_descriptor);

}  // namespace gantry::bench
