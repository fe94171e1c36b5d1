#pragma once  // base/os/memlock.hpp: the error of every way of pinning memory.

#include <sys/resource.h>

#include "core/base/result.hpp"

namespace gantry {

[[nodiscard]] inline std::string memlock_limit_text() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "unknown";
  if (limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return fmt::format("{} KiB", limit.rlim_cur >> 10);
}

/// The kernel would not pin memory (errno `error`), nearly always because of RLIMIT_MEMLOCK.
[[nodiscard]] inline tl::unexpected<Error> fail_memlock(std::string_view what, int error) {
  return fail(Code::out_of_memory,
              fmt::format("{}: {} (the limit of locked memory is {})", what,
                          std::generic_category().message(error), memlock_limit_text()),
              "raise it: ulimit -l, LimitMEMLOCK= of the service, or CAP_IPC_LOCK");
}

}  // namespace gantry
