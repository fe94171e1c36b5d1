// What each of the programs that make up `gantry` does with its words.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <gantry/runtime.hpp>
#include <new>
#include <sstream>

#include "commands.hpp"
#include "errors.hpp"
#include "output.hpp"
#include "tools/command_line/suggest.hpp"
#include "tools/command_line/unknown_option.hpp"

namespace gantry::cli {
namespace {

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

/// Those that help lists.
std::vector<std::string> shown_names(const CLI::App& app) {
  auto names = command_names(app);
  std::erase_if(names,
                [&](const auto& name) { return app.get_subcommand(name)->get_group().empty(); });
  return names;
}

int wrong_usage(std::string_view what, std::string_view hint) {
  note(fmt::format("{}; {}", what, hint));
  return kExitUsage;
}

int no_command() {
  return wrong_usage("no command", "see gantry --help");
}

/// The command that was meant, as far as the words say, and what they call it: "plan check ".
std::pair<const CLI::App*, std::string> chosen_command(const CLI::App& app) {
  const CLI::App* command = &app;
  std::string words;
  for (auto chosen = app.get_subcommands(); !chosen.empty(); chosen = command->get_subcommands()) {
    command = chosen.front();
    words += command->get_name() + " ";
  }
  return {command, words};
}

std::string help_hint(const CLI::App& app) {
  return fmt::format("see gantry {}--help", chosen_command(app).second);
}

/// Something else may be missing as well; an option that there is not comes first.
int wrong_words(const CLI::App& app, const CLI::ParseError& error) {
  const auto [option, near] = unknown_option(app, *chosen_command(app).first);
  if (option.empty()) return wrong_usage(error.what(), help_hint(app));
  return wrong_usage(fmt::format("{}: there is no such option", option),
                     near.empty() ? help_hint(app) : near);
}

// CLI11 would say that a word was not expected; people want to know which word was meant.
bool is_unknown_command(const CLI::App& app, std::string_view word) {
  const auto names = command_names(app);
  return !word.starts_with('-') && std::ranges::find(names, word) == names.end();
}

/// What is wrong with the words where a command of a command belongs; empty: nothing.
std::string wrong_subcommand(const CLI::App& app, int argc, char** argv) {
  const CLI::App* command = app.get_subcommand(argv[1]);
  std::string words = argv[1];
  for (int i = 2;; ++i) {
    const auto names = command_names(*command);
    if (names.empty() || (i < argc && argv[i][0] == '-')) return {};
    if (i == argc)
      return fmt::format("command '{}': it needs a command; known here: {}", words,
                         fmt::join(names, ", "));
    words += fmt::format(" {}", argv[i]);
    if (is_unknown_command(*command, argv[i]))
      return fmt::format("command '{}': there is no such command; {}", words,
                         suggest(argv[i], names));
    command = command->get_subcommand(argv[i]);
  }
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
                       suggest(argv[1], shown_names(app)));
  if (argv[1][0] != '-') {
    if (const std::string wrong = wrong_subcommand(app, argc, argv); !wrong.empty())
      return note(wrong), kExitUsage;
  }
  try {
    app.parse(argc, argv);
    return app.get_subcommands().empty() ? no_command() : exit_code;
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? show(app, error) : wrong_words(app, error);
  }
}

/// All that the table has; those of other programs are listed alone.
void add_commands(CLI::App& app, int& exit_code) {
  for (const CommandRow& row : kCommands) {
    const Command command = Command(&app).add_subcommand(std::string(row.name), row.summary);
    if (!row.is_listed) command.hide();
    if (row.add != nullptr) row.add(command, exit_code);
  }
}

int run_main(int argc, char** argv) {
  CLI::App app("Moves big buffers between processes while your code keeps computing.", "gantry");
  int exit_code = 0;
  app.require_subcommand(0, 1);  // none: parse() says more than CLI11 would
  app.set_version_flag("--version", fmt::format("gantry {}", version()));
  app.footer("Example: head -c 1G /dev/zero | gantry put zeros & gantry get zeros | wc -c");
  add_commands(app, exit_code);
  return parse(app, argc, argv, exit_code);
}

/// Opens standard streams that the caller closed, so that descriptors opened later do not take
/// their numbers: an event that became number 0 would be read as standard input. Using them is an
/// error, also for a benchmark that takes over.
void occupy_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream)
    if (::fcntl(stream, F_GETFD) < 0) ::open("/", O_PATH);  // takes the lowest number
}

}  // namespace

int run_program(int argc, char** argv) {
  ::prctl(PR_SET_NAME, "gantry");  // for ps, pkill and traces, whichever program it is
  occupy_standard_streams();
  // Writing to a pipe whose reader left is an error like others, which leaves time to clean up.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return run_main(argc, argv);
  } catch (const std::bad_alloc&) {
    return fail({Code::out_of_memory, "out of memory", {}});
  } catch (const std::exception& error) {  // what libraries throw
    return fail({Code::system, error.what(), {}});
  }
}

}  // namespace gantry::cli
