#pragma once  // base/holes.hpp: how much of shared memory nobody has written yet.

#include <gantry/types.hpp>

namespace gantry {

/// Bytes of [offset, offset + size) of a memfd for which there is no page: whoever reads them has
/// the kernel make one, on its own account. Pages that were swapped out are there. 0 where the
/// kernel cannot tell (huge pages). Waits for nobody; before Linux 6.5, for whoever is allocating
/// pages of the same memfd.
[[nodiscard]] Bytes holes_in(int descriptor, Bytes offset, Bytes size) noexcept;

/// As before Linux 6.5.
[[nodiscard]] Bytes holes_by_seeking(int descriptor, Bytes offset, Bytes size) noexcept;

}  // namespace gantry
