#include "directory.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "errors.hpp"

namespace gantry::cli {
namespace {

constexpr const char* kHint = "make that folder, or set GANTRY_DIR to a directory you can write to";

constexpr const char* kLookersHint = "look as that user, or name a directory of your own";

/// "squares.0.0" without the replicas of its two ends.
std::string_view without_replicas(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  std::string_view left = name;
  for (int end = 0; end < 2; ++end) {
    const std::size_t dot = left.find_last_not_of(kDigits);
    if (dot == std::string_view::npos || left[dot] != '.' || dot + 1 == left.size()) return name;
    left = left.substr(0, dot);
  }
  return left;
}

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

Result<std::vector<ChannelStatus>> look_at_channels(std::string_view directory) {
  return list_channels(directory).map_error([](Error error) {
    if (error.hint.find("EndOptions::access") != std::string::npos) error.hint = kLookersHint;
    return error;
  });
}

bool names_channel(std::string_view name, std::string_view full) {
  if (name == full || name == without_replicas(full)) return true;
  const std::size_t slash = full.starts_with(kRunPrefix) ? full.find('/') : std::string_view::npos;
  return slash != std::string_view::npos && names_channel(name, full.substr(slash + 1));
}

Result<void> can_look_into(std::string_view directory) {
  return look_at_channels(directory).map([](const auto&) {});
}

Result<void> can_make_directory(const std::string& path) {
  if (::access(parent_of(path).c_str(), W_OK | X_OK) == 0) return {};
  return tl::unexpected(not_makeable(path, errno));
}

}  // namespace gantry::cli
