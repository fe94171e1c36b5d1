// Each of the programs that make up `gantry` runs the commands that are linked to it, and becomes
// another program for the others (commands.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "commands.hpp"
#include "errors.hpp"
#include "programs.hpp"

namespace gantry::cli {
namespace {

/// The command that the words name, if another program has it. Options of `gantry` stand before a
/// command, and take no values.
const CommandRow* command_elsewhere(std::span<char*> words) {
  const auto word = std::ranges::find_if(words, [](const char* one) { return *one != '-'; });
  if (word == words.end()) return nullptr;
  const auto row = std::ranges::find(kCommands, std::string_view(*word), &CommandRow::name);
  return row != kCommands.end() && row->add == nullptr ? &*row : nullptr;
}

/// Returns only on failure.
int hand_over(const CommandRow& row, char** argv) {
  const auto program = path_of_program(row.program);
  const int error = become(program, argv);
  if (error != ENOENT) return fail(system_error(program, error));
  return fail({Code::not_found,
               fmt::format("command '{}': there is no {}", row.name, program.string()),
               fmt::format("install the package gantry-tools, or build it: "
                           "tools/build release {}",
                           row.program)});
}

}  // namespace
}  // namespace gantry::cli

// Streams and signals are as the caller left them when another program takes over.
int main(int argc, char** argv) {
  using namespace gantry::cli;
  const std::span words(argv, static_cast<std::size_t>(argc));
  if (const CommandRow* row = command_elsewhere(words.subspan(words.empty() ? 0 : 1)))
    return hand_over(*row, argv);
  return run_program(argc, argv);
}
