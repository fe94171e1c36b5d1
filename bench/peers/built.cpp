#include "built.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "../support/program/choices.hpp"
#include "../support/system/command.hpp"

namespace gantry::bench {
namespace {

namespace fs = std::filesystem;

void put_first(const char* variable, const std::vector<std::string>& folders) {
  const char* const present = ::getenv(variable);
  std::string value = fmt::format("{}", fmt::join(folders, ":"));
  if (present != nullptr && *present != '\0') value += std::string(":") + present;
  ::setenv(variable, value.c_str(), 1);
}

Result<void> use_peers_at(const std::string& text) {
  std::vector<std::string> libraries, programs;
  for (const std::string& word : words_of(text)) {
    std::error_code none;
    const fs::path folder = fs::absolute(word, none);
    if (!fs::is_directory(folder, none))
      return Unexpected({Code::invalid_argument, fmt::format("there is no folder '{}'", word),
                         "name the folder that a peer was installed into, as in its --prefix"});
    for (const fs::path& place : {folder / "lib", folder / "lib64", folder})
      if (fs::is_directory(place, none)) libraries.push_back(place);
    if (fs::is_directory(folder / "bin", none)) programs.push_back(folder / "bin");
  }
  if (!libraries.empty()) put_first("LD_LIBRARY_PATH", libraries);
  if (!programs.empty()) put_first("PATH", programs);
  return {};
}

}  // namespace

std::string peer_path(const std::string& file) {
  std::error_code none;
  return std::filesystem::read_symlink("/proc/self/exe", none).parent_path() / file;
}

std::optional<std::string> lack_of_peer(const std::string& file, std::string_view packages) {
  if (::access(peer_path(file).c_str(), R_OK) == 0) return std::nullopt;
  return fmt::format(
      "not built: when CMake ran, not all of these were installed: {}; install them (tools/setup "
      "peers), configure and build again",
      packages);
}

bool admit_peer(Report& report, const std::string& subject, const std::string& program,
                std::string_view packages) {
  auto lack = lack_of_peer(program, packages);
  const auto said = lack ? Result<std::string>("") : output_of({peer_path(program), "--version"});
  if (!lack && !said) lack = said.error().message;
  if (lack) {
    report.skipped.push_back({subject, *std::move(lack)});
    return false;
  }
  const auto line_end = said->find('\n');  // the version, then the library's file
  const std::string library = said->substr(std::min(line_end, said->size() - 1) + 1);
  report.peers.push_back(
      {subject, said->substr(0, line_end), library.substr(0, library.find('\n'))});
  return true;
}

OwnOption peers_path_option() {
  return {
      "--peers-path",
      "Folders of other systems that are used before the installed ones: /opt/ucx,/opt/ompi",
      {},
      {},
      [](const std::string& text) { return text.empty() ? Result<void>() : use_peers_at(text); }};
}

}  // namespace gantry::bench
