#pragma once  // uring/registrar.hpp: registers memory as the fixed buffers of an io_uring.

#include <gantry/memory.hpp>

namespace gantry {

struct UringRegistrarOptions {
  RegistrarOptions limits{};
  int ring_descriptor = -1;  ///< A ring without fixed buffers; duplicated. -1: one of its own.
  unsigned slots = 1024;     ///< Size of the ring's buffer table: the most registrations at a time.
};

/// Keys are buffer indices, for IORING_OP_READ_FIXED and its kin. Errors: `unsupported` where
/// io_uring is switched off or too old, or not in this build; `invalid_argument` for a descriptor
/// that is no ring; `already_exists` for a ring that has fixed buffers.
[[nodiscard]] Result<std::shared_ptr<Registrar>> make_uring_registrar(
    const UringRegistrarOptions& options = {});

}  // namespace gantry
