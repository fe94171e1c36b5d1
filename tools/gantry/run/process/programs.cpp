#include "run/process/programs.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "run/file/environment.hpp"

namespace gantry::run {
namespace {

Result<std::string> check_program(std::string file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error))
    return tl::unexpected(Error{Code::not_found, fmt::format("there is no {}", file), {}});
  if (std::filesystem::is_directory(file, error))
    return tl::unexpected(
        Error{Code::permission_denied, fmt::format("{} is a folder", file), "name a program"});
  if (::access(file.c_str(), X_OK) != 0)
    return tl::unexpected(Error{Code::permission_denied, fmt::format("{} is not executable", file),
                                fmt::format("chmod +x {}", file)});
  return file;
}

/// The first executable `command` in the folders of `path`; an empty folder is the current one.
Result<std::string> look_up(const std::string& command, std::string_view path) {
  while (true) {
    const std::size_t colon = path.find(':');
    const std::string folder(path.substr(0, colon));
    Result<std::string> found = check_program((folder.empty() ? "." : folder) + "/" + command);
    if (found) return found;
    if (colon == std::string_view::npos) break;
    path.remove_prefix(colon + 1);
  }
  return tl::unexpected(Error{Code::not_found,
                              fmt::format("there is no program '{}' in PATH", command),
                              "install it, or write its path"});
}

}  // namespace

Result<std::string> find_program(const std::string& command, std::string_view path,
                                 const std::string& folder) {
  if (command.find('/') == std::string::npos) return look_up(command, path);
  if (command.starts_with("./") || command.starts_with("../"))
    return check_program(folder + "/" + command);
  return check_program(command);
}

void locate_programs(Pipeline& pipeline, std::size_t host, const std::string& folder,
                     Mistakes& mistakes) {
  for (Stage& stage : pipeline.stages) {
    if (stage.host != host || stage.command.empty()) continue;
    auto program = find_program(stage.command.front(), stage_path(stage), folder);
    mistakes.note(program.map_error([&](const Error& error) {
      return pipeline.source.error(stage.command_at,
                                   fmt::format("stages.{}.{}", stage.name, stage.command_key),
                                   error.message, error.hint);
    }));
    stage.program = std::move(program).value_or("");
  }
}

void locate_launchers(Pipeline& pipeline, Mistakes& mistakes) {
  for (std::size_t index = 0; index < pipeline.hosts.size(); ++index) {
    Host& host = pipeline.hosts[index];
    if (!is_used(pipeline, index) || host.launch.empty()) continue;
    auto program = find_program(host.launch.front(), stage_path({}), pipeline.source.folder);
    mistakes.note(program.map_error([&](const Error& error) {
      return pipeline.source.error(host.launch_at, fmt::format("hosts.{}.launch", host.name),
                                   error.message, error.hint);
    }));
    host.launcher = std::move(program).value_or("");
  }
}

}  // namespace gantry::run
