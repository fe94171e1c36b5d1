#include "output_file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

namespace gantry::bench {

Result<void> check_output(std::string_view option, const std::string& path) {
  std::error_code unknown;
  const bool is_new = !std::filesystem::exists(path, unknown);
  if (!std::ofstream(path, std::ios::app))
    return Unexpected(system_error(fmt::format("{} {}", option, path)));
  if (is_new) std::filesystem::remove(path, unknown);
  return {};
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
  std::ofstream out(path, std::ios::trunc);
  if (out << text && out.flush()) return {};
  return Unexpected(system_error(fmt::format("{} {}", option, path)));
}

}  // namespace gantry::bench
