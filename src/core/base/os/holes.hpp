#pragma once  // base/os/holes.hpp: counts the bytes of shared memory that nobody has written yet.

#include <gantry/types.hpp>

namespace gantry {

/// Bytes of [offset, offset + size) of a memfd that have no page: reading them makes the kernel
/// make one, on the reader's account. Swapped-out pages count as present. 0 if the kernel cannot
/// tell (huge pages). Waits for nobody; before Linux 6.5, for whoever is allocating pages of the
/// same memfd.
[[nodiscard]] Bytes holes_in(int descriptor, Bytes offset, Bytes size) noexcept;

/// The way before Linux 6.5.
[[nodiscard]] Bytes holes_by_seeking(int descriptor, Bytes offset, Bytes size) noexcept;

}  // namespace gantry
