// Completions of words for bash and zsh.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "pages.hpp"

namespace gantry::cli {
namespace {

constexpr std::string_view kBench = "gantry bench";  // its names are no commands of CLI11's
constexpr const char* kListBenches =
    "gantry bench --help 2>/dev/null | sed -n 's/^Example: gantry bench \\([a-z]*\\) .*/\\1/p'";
// The first column of `gantry ls`, without its title.
constexpr const char* kListChannels = "gantry ls 2>/dev/null | sed -n '2,$s/ .*//p'";

struct Completed {
  std::string words;  ///< "gantry plan check"
  const CLI::App* app;
};

void collect(const CLI::App& app, const std::string& words, std::vector<Completed>& into) {
  into.push_back({words, &app});
  for (const CLI::App* below : shown_commands(app))
    collect(*below, words + " " + below->get_name(), into);
}

std::vector<Completed> all_commands(const CLI::App& gantry) {
  std::vector<Completed> commands;
  collect(gantry, gantry.get_name(), commands);
  return commands;
}

/// A loop over the words typed so far, from `first` on, that leaves the command's words in $chosen
/// ($path is zsh's own).
std::string find_path(const std::vector<Completed>& commands, const std::string& head) {
  std::vector<std::string> below;
  for (const Completed& command : commands)
    if (command.app->get_parent() != nullptr) below.push_back(fmt::format("'{}'", command.words));
  return fmt::format(
      "  {}\n    case \"$chosen $each\" in\n      {}) chosen=\"$chosen $each\" ;;\n    esac\n  "
      "done\n",
      head, fmt::join(below, " | "));
}

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() != 0;
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  return names;
}

// ---- bash ----------------------------------------------------------------------------------

std::string bash_answer(const Values& values) {
  if (values.are_channels) return fmt::format("words=$({})", kListChannels);
  if (values.are_files) return "COMPREPLY=($(compgen -f -- \"$word\")); return";
  if (!values.words.empty()) return fmt::format("words='{}'", fmt::join(values.words, " "));
  return "return";
}

std::string bash_values(const Completed& command) {
  std::string text;
  for (const CLI::Option* option : options_of(*command.app)) {
    if (!takes_value(*option)) continue;
    for (const std::string& name : names_of(*option))
      text +=
          fmt::format("    '{} {}') {} ;;\n", command.words, name, bash_answer(values_of(*option)));
  }
  return text;
}

std::string bash_words(const Completed& command) {
  std::vector<std::string> options, below;
  for (const CLI::Option* option : options_of(*command.app))
    for (std::string& name : names_of(*option)) options.push_back(std::move(name));
  for (const CLI::App* app : shown_commands(*command.app)) below.push_back(app->get_name());
  std::string other = below.empty() ? "return" : fmt::format("words='{}'", fmt::join(below, " "));
  if (const auto arguments = arguments_of(*command.app); !arguments.empty())
    other = bash_answer(values_of(*arguments.front()));
  if (command.words == kBench) other = fmt::format("words=$({})", kListBenches);
  return fmt::format(
      "    '{}') case $word in\n      -*) words='{}' ;;\n      *) {} ;;\n      esac ;;\n",
      command.words, fmt::join(options, " "), other);
}

// ---- zsh -----------------------------------------------------------------------------------

/// Text within '...[here]...'.
std::string zsh_text(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '\'')
      safe += "'\\''";
    else if (letter == '[' || letter == ']' || letter == ':' || letter == '\\')
      safe += std::string("\\") + letter;
    else
      safe += letter;
  }
  return safe;
}

std::string zsh_answer(const Values& values) {
  if (values.are_channels) return "_gantry_channels";
  if (values.are_files) return "_files";
  return values.words.empty() ? " " : fmt::format("({})", fmt::join(values.words, " "));
}

std::string zsh_arguments(const Completed& command) {
  std::string text = fmt::format("    '{}') _arguments", command.words);
  for (const CLI::Option* option : options_of(*command.app))
    for (const std::string& name : names_of(*option)) {
      text += fmt::format(" \\\n      '{}[{}]", name, zsh_text(option->get_description()));
      if (takes_value(*option))
        text += fmt::format(":{}:{}", zsh_text(option->get_type_name()),
                            zsh_answer(values_of(*option)));
      text += "'";
    }
  for (const CLI::Option* argument : arguments_of(*command.app))
    text += fmt::format(" \\\n      ':{}:{}'", zsh_text(argument->get_single_name()),
                        zsh_answer(values_of(*argument)));
  if (command.words == kBench) text += " \\\n      ':name:_gantry_benches'";
  if (const auto below = shown_commands(*command.app); !below.empty()) {
    std::string names;
    for (const CLI::App* app : below)
      names += fmt::format(" {}\\:\"{}\"", app->get_name(), zsh_text(app->get_description()));
    text += fmt::format(" \\\n      ':command:(({}))'", names);
  }
  return text + " ;;\n";
}

}  // namespace

std::string bash_completion(const CLI::App& gantry) {
  const auto commands = all_commands(gantry);
  std::string values, words;
  for (const Completed& command : commands) {
    values += bash_values(command);
    words += bash_words(command);
  }
  return "# Made by `gantry pages`.\n_gantry() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  local chosen=gantry words='' each\n" +
         find_path(commands, "for each in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do") +
         "  case \"$chosen $before\" in\n" + values + "    *) case $chosen in\n" + words +
         "    esac ;;\n  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\n"
         "complete -F _gantry gantry\n";
}

std::string zsh_completion(const CLI::App& gantry) {
  const auto commands = all_commands(gantry);
  std::string cases;
  for (const Completed& command : commands) cases += zsh_arguments(command);
  return fmt::format(
      "#compdef gantry\n# Made by `gantry pages`.\n_gantry_channels() {{\n  local -a names\n"
      "  names=(${{(f)\"$({})\"}})\n  compadd -a names\n}}\n_gantry_benches() {{\n  local -a "
      "names\n"
      "  names=(${{(f)\"$({})\"}})\n  compadd -a names\n}}\n_gantry() {{\n"
      "  local each chosen=gantry\n  local -a path_words\n{}"
      "  path_words=(${{=chosen}})\n  each=$#path_words\n"
      "  while (( --each > 0 )); do shift words; (( CURRENT-- )); done\n"
      "  case $chosen in\n{}  esac\n}}\n_gantry \"$@\"\n",
      kListChannels, kListBenches,
      find_path(commands, "for each in \"${(@)words[2,CURRENT-1]}\"; do"), cases);
}

}  // namespace gantry::cli
