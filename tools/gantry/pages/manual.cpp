// A command's manual page, from what its --help says.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <gantry/runtime.hpp>
#include <sstream>

#include "pages.hpp"

namespace gantry::cli {
namespace {

struct Variable {
  const char* name;
  const char* text;
};
constexpr std::array kVariables{
    Variable{"GANTRY_DIR",
             "The folder of the names of channels. Without it $XDG_RUNTIME_DIR/gantry, or a "
             "folder of the user's below the one for temporary files."},
    Variable{"GANTRY_ENGINE", "Copying engine, by its name in gantry doctor. Default: auto."},
    Variable{"GANTRY_TOKEN_FILE", "The file with the secret by which other hosts are reached."},
};

/// Text that roff takes for nothing else.
std::string roff(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '\\')
      safe += "\\e";
    else if (letter == '-')
      safe += "\\-";
    else if ((letter == '.' || letter == '\'') && (safe.empty() || safe.back() == '\n'))
      safe += std::string("\\&") + letter;
    else
      safe += letter;
  }
  return safe;
}

std::string item(const std::string& name, const std::string& type, const std::string& text) {
  std::string value = type.empty() ? "" : fmt::format(" \\fI{}\\fR", roff(type));
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff(name), value, roff(text));
}

std::string items(const std::vector<const CLI::Option*>& options) {
  std::string text;
  for (const CLI::Option* option : options) {
    std::string name = option->get_name(false, true);
    std::ranges::replace(name, ',', ' ');
    const std::string type = option->get_items_expected_max() == 0 ? "" : option->get_type_name();
    text += item(name, type == "TEXT" ? "" : type, option->get_description());
  }
  return text;
}

/// Variables that stand for an option of the command.
std::string variables_of(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : options_of(command))
    if (const std::string name = option->get_envname(); !name.empty())
      text += item(name, "", fmt::format("The same as {}, which wins.", option->get_name()));
  return text;
}

std::string synopsis(const CLI::App& command, const std::string& words) {
  std::string line = fmt::format(".B {}\n.RI [ OPTIONS ]", roff(words));
  for (const CLI::Option* argument : arguments_of(command)) {
    const std::string name = roff(argument->get_single_name());
    line +=
        argument->get_required() ? fmt::format("\n.I {}", name) : fmt::format("\n.RI [ {} ]", name);
  }
  if (!shown_commands(command).empty()) line += "\n.I COMMAND";
  return line + "\n";
}

/// The end of --help: sentences, and lines that begin with "Example: " and go on indented.
std::string notes_and_examples(std::string_view footer) {
  constexpr std::string_view kExample = "Example: ";
  std::istringstream lines{std::string(footer)};
  std::string notes, examples;
  bool in_example = false;
  for (std::string line; std::getline(lines, line);) {
    in_example = line.starts_with(kExample) || (in_example && line.starts_with(' '));
    const bool begins = line.starts_with(kExample);
    const std::string shown = roff(begins ? line.substr(kExample.size()) : line);
    if (in_example)
      examples += (begins && !examples.empty() ? "\n" : "") + shown + "\n";
    else if (!line.empty())
      notes += shown + "\n";
  }
  std::string text = notes.empty() ? "" : ".SH NOTES\n" + notes;
  return text + (examples.empty() ? "" : ".SH EXAMPLES\n.nf\n" + examples + ".fi\n");
}

std::string see_also(const CLI::App& command, const std::string& name) {
  std::string text = ".SH SEE ALSO\n";
  const bool is_top = command.get_parent() == nullptr;
  std::vector<std::string> pages;
  if (!is_top) pages.push_back(name.substr(0, name.rfind('-')));
  for (const CLI::App* below : shown_commands(command))
    pages.push_back(name + "-" + below->get_name());
  for (const std::string& page : pages)
    text += fmt::format(".BR {} (1){}\n", roff(page), &page == &pages.back() ? "" : ",");
  return text;
}

}  // namespace

std::string manual_page(const CLI::App& command, const std::string& words) {
  std::string name = words, upper;
  std::ranges::replace(name, ' ', '-');
  std::ranges::transform(name, std::back_inserter(upper), [](char letter) {
    return letter >= 'a' && letter <= 'z' ? letter - 'a' + 'A' : letter;
  });
  std::string text = fmt::format(
      ".\\\" Made by `gantry pages` from what --help says.\n"
      ".TH \"{}\" 1 \"\" \"gantry {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}",
      roff(upper), version(), roff(name), roff(command.get_description()),
      synopsis(command, words));
  const auto commands = shown_commands(command);
  if (!commands.empty()) text += ".SH COMMANDS\n";
  for (const CLI::App* below : commands)
    text += item(below->get_name(), "", below->get_description());
  const auto arguments = arguments_of(command);
  if (!arguments.empty()) text += ".SH ARGUMENTS\n" + items(arguments);
  text += ".SH OPTIONS\n" + items(options_of(command));
  const bool is_top = command.get_parent() == nullptr;
  const std::string variables = variables_of(command);
  if (is_top || !variables.empty()) text += ".SH ENVIRONMENT\n" + variables;
  if (is_top) {
    for (const Variable& variable : kVariables) text += item(variable.name, "", variable.text);
    text +=
        ".SH EXIT STATUS\n0, or 1 after an error, 2 when it was used wrongly, 130 when it was "
        "interrupted.\n";
  }
  return text + notes_and_examples(command.get_footer()) + see_also(command, name);
}

}  // namespace gantry::cli
