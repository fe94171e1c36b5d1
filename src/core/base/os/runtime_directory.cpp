#include "core/base/os/runtime_directory.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace gantry {
namespace {

std::string variable(const char* name) {
  const char* value = ::secure_getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it here
  return value == nullptr ? std::string() : std::string(value);
}

bool is_absolute(const std::string& path) {
  return path.starts_with('/');
}

}  // namespace

std::string runtime_directory_path() {
  if (auto chosen = variable("GANTRY_DIR"); !chosen.empty()) return chosen;
  // A relative one is to be ignored, says the XDG Base Directory Specification.
  if (auto runtime = variable("XDG_RUNTIME_DIR"); is_absolute(runtime)) return runtime + "/gantry";
  auto temporary = variable("TMPDIR");
  if (!is_absolute(temporary)) temporary = "/tmp";
  return fmt::format("{}/gantry-{}", temporary, ::geteuid());
}

}  // namespace gantry
