#pragma once  // base/os/fork_error.hpp: the error of a call on a fork's copy.

#include "core/base/os/fork.hpp"
#include "core/base/result.hpp"

namespace gantry {

/// The error of a call on a copy that fork() made. `what` names the object.
[[nodiscard]] inline tl::unexpected<Error> belongs_to_parent(std::string_view what) {
  return fail(
      Code::invalid_argument,
      fmt::format("{}: it was opened before fork() and belongs to the parent process", what),
      "open one in the child, after fork()");
}

[[nodiscard]] inline Result<void> check_not_forked(const ForkGuard& fork_guard,
                                                   std::string_view kind, std::string_view name) {
  if (fork_guard.is_this()) [[likely]]
    return {};
  return belongs_to_parent(fmt::format("{} '{}'", kind, name));
}

}  // namespace gantry
