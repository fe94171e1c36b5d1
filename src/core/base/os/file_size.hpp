#pragma once  // base/os/file_size.hpp: sets the size of a file, within the limit of the process.

#include <sys/resource.h>
#include <unistd.h>

#include "core/base/result.hpp"

namespace gantry {

/// Sets the size of `file`, which `what` names in an error. Checks the limit first, since the
/// kernel would end a process that goes beyond it (SIGXFSZ).
[[nodiscard]] inline Result<void> set_file_size(int file, std::uint64_t bytes,
                                                std::string_view what) {
  rlimit most{};
  const bool is_too_large = ::getrlimit(RLIMIT_FSIZE, &most) == 0 && bytes > most.rlim_cur;
  if (is_too_large) return fail_errno(what, EFBIG, "raise the limit of files' sizes (ulimit -f)");
  if (::ftruncate(file, static_cast<off_t>(bytes)) != 0) return fail_errno(what);
  return {};
}

}  // namespace gantry
