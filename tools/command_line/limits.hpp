#pragma once  // tools/command_line/limits.hpp: what mends a system call that a limit has ended.

#include <cerrno>

namespace gantry::cli {

/// Empty: it is no limit of this process that `number`, an errno value, speaks of.
[[nodiscard]] constexpr const char* mend_of_limit(int number) noexcept {
  switch (number) {
    case EMFILE:
      return "raise the limit of open files (ulimit -n)";
    case EFBIG:
      return "raise the limit of files' sizes (ulimit -f)";
    default:
      return "";
  }
}

}  // namespace gantry::cli
