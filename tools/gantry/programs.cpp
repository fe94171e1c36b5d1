#include "programs.hpp"

#include <unistd.h>

#include <cerrno>

namespace gantry::cli {

namespace fs = std::filesystem;

fs::path gantry_folder() {
  std::error_code none;
  const fs::path own = fs::read_symlink("/proc/self/exe", none).parent_path();
  const fs::path prefix = own.parent_path().parent_path();
  return own == prefix / "libexec" / "gantry" ? prefix / "bin" : own;
}

fs::path libexec_folder() {
  return gantry_folder().parent_path() / "libexec" / "gantry";
}

fs::path path_of_program(std::string_view name) {
  return (name == "gantry" ? gantry_folder() : libexec_folder()) / name;
}

int become(const fs::path& program, char** arguments) {
  ::execv(program.c_str(), arguments);
  return errno;
}

}  // namespace gantry::cli
