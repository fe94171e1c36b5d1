// gantry bench: hands over to the benchmark program of that name.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "commands.hpp"
#include "errors.hpp"

namespace gantry::cli {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "gantry-bench-";

// Beside this program in a build tree, in libexec when installed.
std::vector<fs::path> folders() {
  std::error_code none;
  const fs::path own = fs::read_symlink("/proc/self/exe", none).parent_path();
  return {own, own.parent_path() / "libexec" / "gantry"};
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

// Returns only on failure.
Error become(const fs::path& program, const std::vector<std::string>& arguments) {
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (const auto& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  std::signal(SIGPIPE, SIG_DFL);  // what this program ignores, that one need not
  ::execv(program.c_str(), pointers.data());
  return system_error(program, errno);
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
  for (const auto& folder : folders())
    if (::access((folder / words.front()).c_str(), X_OK) == 0)
      return fail(become(folder / words.front(), words));
  return fail({Code::not_found, fmt::format("benchmark '{}': it has just gone", name), {}});
}

}  // namespace

// CLI11 would take options such as --help for itself, so everything from the name on is left over.
void add_bench(const Command& app, int& exit_code) {
  const auto command = app.add_subcommand("bench", "Measure: gantry bench NAME [options]");
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
