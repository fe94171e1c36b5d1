#pragma once  // tools/command_line/unknown_option.hpp: an option that there is not, and which was
              // meant.

#include <CLI/CLI.hpp>
#include <string>

namespace gantry::cli {

struct UnknownOption {
  std::string name;  ///< Without its value; empty: there is none.
  std::string hint;  ///< "did you mean '--sizes'?"; empty when none is near.
};

/// The first option among what the parser `app` did not expect, next to those of `command`, which
/// is `app` or a command of it.
[[nodiscard]] UnknownOption unknown_option(const CLI::App& app, const CLI::App& command);

}  // namespace gantry::cli
