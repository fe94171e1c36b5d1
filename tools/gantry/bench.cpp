// gantry bench: hands over to the benchmark program of that name.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "commands.hpp"
#include "errors.hpp"
#include "programs.hpp"

namespace gantry::cli {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "gantry-bench-";

// Beside this program in a build tree, in libexec when installed.
std::vector<fs::path> folders() {
  return {gantry_folder(), libexec_folder()};
}

std::set<std::string> known_benches() {
  std::set<std::string> names;
  std::error_code none;
  for (const auto& folder : folders())
    for (const auto& entry : fs::directory_iterator(folder, none)) {
      const std::string file = entry.path().filename();
      if (file.starts_with(kPrefix) && ::access(entry.path().c_str(), X_OK) == 0)
        names.insert(file.substr(kPrefix.size()));
    }
  return names;
}

std::string list_of(const std::set<std::string>& names) {
  return names.empty() ? "none is here; make build, in Gantry's source tree, builds them"
                       : fmt::format("there are: {}", fmt::join(names, ", "));
}

int bench(std::vector<std::string> words) {
  const auto names = known_benches();
  const std::string name = words.front();
  if (!names.contains(name)) {
    note(fmt::format("benchmark '{}': {}; {}", name,
                     name == "python" ? "only a build tree with the Python package has it"
                                      : "there is none of that name",
                     list_of(names)));
    return kExitUsage;
  }
  words.front() = fmt::format("{}{}", kPrefix, name);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::signal(SIGPIPE, SIG_DFL);  // what this program ignores, that one need not
  for (const auto& folder : folders()) {
    const fs::path program = folder / words.front();
    if (::access(program.c_str(), X_OK) == 0)
      return fail(system_error(program, become(program, pointers.data())));
  }
  return fail({Code::not_found, fmt::format("benchmark '{}': it has just gone", name), {}});
}

}  // namespace

// CLI11 would take options such as --help for itself, so everything from the name on is left over.
void add_bench(const Command& command, int& exit_code) {
  command->prefix_command();
  command->footer(std::string());  // not the one of `gantry`, which stands below otherwise
  command->footer([] {
    const auto names = known_benches();
    std::string text =
        fmt::format("NAME and what follows go to the benchmark;\n{}\n", list_of(names));
    for (const std::string& name : names)
      text += fmt::format("Example: gantry bench {} {}\n", name,
                          name == "plot" ? "report.json report.svg" : "--quick");
    return text + fmt::format("Example: gantry bench {} --help",
                              names.empty() ? std::string("NAME") : *names.begin());
  });
  command->callback([command, &exit_code] {
    const auto words = command->remaining();
    if (words.empty()) refuse_word("bench", fmt::format("no name; {}", list_of(known_benches())));
    exit_code = bench(words);
  });
}

}  // namespace gantry::cli
