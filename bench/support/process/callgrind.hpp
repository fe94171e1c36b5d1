#pragma once  // bench/support/process/callgrind.hpp: counting what a program executes in functions
              // that it names.

#include <string>
#include <vector>

#include "../system/posix.hpp"

namespace gantry::bench {

/// First argument with which a benchmark starts itself under callgrind.
inline constexpr std::string_view kCounted = "--counted";

/// What stands before a program's own words so that callgrind counts it in functions that begin
/// with `function`, and in what these call; `into`: a folder that gets the counts.
[[nodiscard]] std::vector<std::string> callgrind_words(const std::string& function,
                                                       const std::string& into);
/// What all processes that have ended left in that folder. Empties it. Errors: that is nothing.
[[nodiscard]] Result<double> take_count(const std::string& from);

/// Starts this program with those words under callgrind and takes the count. Killed when it is
/// interrupted.
[[nodiscard]] Result<double> count_own(const std::string& function, const std::string& into,
                                       const std::vector<std::string>& words,
                                       int interrupt_descriptor);

}  // namespace gantry::bench
