#pragma once  // tools/gantry/pages/pages.hpp: what is made from the tables of commands: manual
              // pages and completions.

#include <CLI/CLI.hpp>
#include <gantry/types.hpp>

namespace gantry::cli {

/// The commands below `command` that help lists.
[[nodiscard]] std::vector<const CLI::App*> shown_commands(const CLI::App& command);
/// The command's options, without or with only its arguments by place.
[[nodiscard]] std::vector<const CLI::Option*> options_of(const CLI::App& command);
[[nodiscard]] std::vector<const CLI::Option*> arguments_of(const CLI::App& command);

/// What can follow an argument, or an option that takes a value.
struct Values {
  bool are_channels = false;
  bool are_files = false;
  std::vector<std::string> words{};
};
[[nodiscard]] Values values_of(const CLI::Option& option);

/// A page for man(1), in roff; `words`: "gantry plan check".
[[nodiscard]] std::string manual_page(const CLI::App& command, const std::string& words);
[[nodiscard]] std::string bash_completion(const CLI::App& gantry);
[[nodiscard]] std::string zsh_completion(const CLI::App& gantry);

}  // namespace gantry::cli
