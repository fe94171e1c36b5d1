#include "output_file.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "tools/command_line/output_file.hpp"

namespace gantry::bench {
namespace {

Error of_option(std::string_view option, Error error) {
  error.message = fmt::format("{} {}", option, error.message);
  return error;
}

Result<cli::OutputFile> file_of(std::string_view option, const std::string& path) {
  return cli::OutputFile::at(path).map_error(
      [&](Error error) { return of_option(option, std::move(error)); });
}

}  // namespace

Result<void> check_output(std::string_view option, const std::string& path) {
  return file_of(option, path).map([](const auto&) {});
}

Result<void> check_picture(std::string_view option, const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension();
  if (ending.empty() || ending == ".svg") return check_output(option, path);
  return Unexpected(
      Error{Code::invalid_argument,
            fmt::format("{} {}: '{}' is no ending of an SVG file", option, path, ending),
            "only SVG is drawn: name it .svg"});
}

Result<void> write_output(std::string_view option, const std::string& path, std::string_view text) {
  const auto file = file_of(option, path);
  if (!file) return Unexpected(file.error());
  return file->write(text).map_error(
      [&](Error error) { return of_option(option, std::move(error)); });
}

}  // namespace gantry::bench
