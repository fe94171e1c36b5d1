#include "tools/command_line/unknown_option.hpp"

#include <vector>

#include "tools/command_line/suggest.hpp"

namespace gantry::cli {
namespace {

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

}  // namespace

UnknownOption unknown_option(const CLI::App& app, const CLI::App& command) {
  for (const std::string& word : app.remaining(true)) {
    if (!word.starts_with('-')) continue;
    const std::string name = word.substr(0, word.find('='));
    return {name, suggest_near(name, option_names(command))};
  }
  return {};
}

}  // namespace gantry::cli
