#include "built.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

namespace gantry::bench {

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

}  // namespace gantry::bench
