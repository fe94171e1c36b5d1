#include "directory.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <gantry/channel/status.hpp>

#include "errors.hpp"

namespace gantry::cli {
namespace {

constexpr const char* kHint = "make that folder, or set GANTRY_DIR to a directory you can write to";

std::string parent_of(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const auto parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

Error not_makeable(const std::string& path, int why) {
  return system_error(fmt::format("{}: cannot be made in {}", path, parent_of(path)), why, kHint);
}

}  // namespace

Result<bool> directory_exists(const std::string& path) {
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) == 0) return true;
  if (errno != ENOENT) return tl::unexpected(not_makeable(path, errno));
  if (::stat(parent_of(path).c_str(), &facts) == 0) return false;
  return tl::unexpected(not_makeable(path, errno));
}

Result<void> can_look_into(std::string_view directory) {
  return list_channels(directory).map([](const auto&) {});
}

Result<void> can_make_directory(const std::string& path) {
  if (::access(parent_of(path).c_str(), W_OK | X_OK) == 0) return {};
  return tl::unexpected(not_makeable(path, errno));
}

}  // namespace gantry::cli
