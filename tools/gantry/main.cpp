// gantry: one binary, one file per subcommand (see commands.hpp).
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <gantry/runtime.hpp>
#include <sstream>

#include "commands.hpp"
#include "errors.hpp"
#include "output.hpp"
#include "suggest.hpp"

namespace gantry::cli {
namespace {

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

int wrong_usage(std::string_view what, std::string_view hint) {
  note(fmt::format("{}; {}", what, hint));
  return kExitUsage;
}

int no_command() {
  return wrong_usage("no command", "see gantry --help");
}

std::string help_hint(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return fmt::format("see gantry {}--help", chosen.empty() ? "" : chosen[0]->get_name() + " ");
}

/// The first option among what the parser did not expect, without its value; empty: there is none.
std::string unknown_option(const CLI::App& app) {
  for (const std::string& word : app.remaining(true))
    if (word.starts_with('-')) return word.substr(0, word.find('='));
  return {};
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

int wrong_option(const CLI::App& app, const CLI::ExtrasError& error) {
  const auto chosen = app.get_subcommands();
  const std::string option = unknown_option(app);
  if (option.empty()) return wrong_usage(error.what(), help_hint(app));
  const std::string near =
      suggest_near(option, option_names(chosen.empty() ? app : *chosen.front()));
  return wrong_usage(fmt::format("{}: there is no such option", option),
                     near.empty() ? help_hint(app) : near);
}

// CLI11 would say that a word was not expected; people want to know which word was meant.
bool is_unknown_command(const CLI::App& app, std::string_view word) {
  const auto names = command_names(app);
  return !word.starts_with('-') && std::ranges::find(names, word) == names.end();
}

/// CLI11 leaves long lines to the terminal, which breaks them anywhere.
std::string fitted_help(std::istream& help) {
  constexpr std::size_t kWidth = 80;
  constexpr std::size_t kIndent = 30;  // where CLI11 puts what it says of an option
  std::string text;
  for (std::string line; std::getline(help, line); text += '\n') {
    const bool is_option = line.starts_with("  ") && line.size() > kIndent;
    const std::size_t indent = is_option ? kIndent : 0;
    std::string between;
    text += line.substr(0, indent);
    for (const std::string& piece : wrapped(line.substr(indent), kWidth - indent)) {
      text += between + piece;
      between = "\n" + std::string(indent, ' ');
    }
  }
  return text;
}

/// Prints what --help or --version asked for.
int show(const CLI::App& app, const CLI::ParseError& request) {
  std::stringstream text;
  const int exit_code = app.exit(request, text, text);
  const auto shown = print(fitted_help(text));
  return shown ? exit_code : fail(shown.error());
}

int parse(CLI::App& app, int argc, char** argv, int& exit_code) {
  if (argc < 2) return no_command();
  if (is_unknown_command(app, argv[1]))
    return wrong_usage(fmt::format("command '{}': there is no such command", argv[1]),
                       suggest(argv[1], command_names(app)));
  try {
    app.parse(argc, argv);
    return app.get_subcommands().empty() ? no_command() : exit_code;
  } catch (const CLI::ExtrasError& error) {
    return wrong_option(app, error);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return show(app, error);
    return wrong_usage(error.what(), help_hint(app));
  }
}

int run_main(int argc, char** argv) {
  CLI::App app("Moves big buffers between processes while your code keeps computing.", "gantry");
  int exit_code = 0;
  app.require_subcommand(0, 1);  // none: parse() says more than CLI11 would
  app.set_version_flag("--version", fmt::format("gantry {}", version()));
  app.footer("Example: head -c 1G /dev/zero | gantry put zeros & gantry get zeros | wc -c");
  add_run(app, exit_code);
  add_plan(app, exit_code);
  add_agent(app, exit_code);
  add_put(app, exit_code);
  add_get(app, exit_code);
  add_ls(app, exit_code);
  add_top(app, exit_code);
  add_bridge(app, exit_code);
  add_mirror(app, exit_code);
  add_doctor(app, exit_code);
  add_calibrate(app, exit_code);
  add_bench(app, exit_code);
  return parse(app, argc, argv, exit_code);
}

}  // namespace
}  // namespace gantry::cli

namespace {

/// Opens standard streams that the caller closed, so that descriptors opened later do not take
/// their numbers: an event that became number 0 would be read as standard input. Using them is an
/// error, also for a benchmark that takes over.
void occupy_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream)
    if (::fcntl(stream, F_GETFD) < 0) ::open("/", O_PATH);  // takes the lowest number
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_streams();
  // Writing to a pipe whose reader left is an error like others, which leaves time to clean up.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return gantry::cli::run_main(argc, argv);
  } catch (const std::exception& error) {  // out of memory, and what libraries throw
    return gantry::cli::fail({gantry::Code::system, error.what(), {}});
  }
}
