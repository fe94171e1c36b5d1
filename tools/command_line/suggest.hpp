#pragma once  // tools/command_line/suggest.hpp: "did you mean ...?"

#include <gantry/types.hpp>
#include <vector>

namespace gantry::cli {

/// "did you mean '...'?" for a word that is nearly one of `known`; empty when none is near.
[[nodiscard]] std::string suggest_near(std::string_view word,
                                       const std::vector<std::string>& known);

/// A hint for a word that is none of `known`: the nearest of them, or all when none is near.
[[nodiscard]] std::string suggest(std::string_view word, const std::vector<std::string>& known);

}  // namespace gantry::cli
