#pragma once  // base/os/uring_refusal.hpp: why there is no ring here.

#include "core/base/os/memlock.hpp"

namespace gantry {

/// The error of io_uring_setup(), by its errno value.
[[nodiscard]] inline tl::unexpected<Error> no_ring(int error) {
  switch (error) {
    case ENOSYS:
      return fail(Code::unsupported, "uring: this kernel has no io_uring",
                  "use a kernel of at least 5.19 that is built with it");
    case EPERM:
      return fail(Code::unsupported, "uring: io_uring is switched off for this process",
                  "sysctl kernel.io_uring_disabled=0; in a container allow io_uring_setup in its "
                  "seccomp profile");
    case ENOMEM:
      return fail_memlock("uring: making a ring", ENOMEM);
    default:
      return fail_errno("uring: making a ring", error);
  }
}

[[nodiscard]] inline tl::unexpected<Error> not_in_this_build() {
  return fail(Code::unsupported, "uring: not in this build",
              "apt install liburing-dev and build again");
}

}  // namespace gantry
