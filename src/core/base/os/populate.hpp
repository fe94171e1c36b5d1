#pragma once  // base/os/populate.hpp: makes pages present before they are used.

#include <gantry/types.hpp>

namespace gantry {

enum class PageAccess : std::uint8_t { read, write };

/// Makes the pages of `range` present for reading or writing, without changing their contents and
/// without racing with other writers. Bounded by the size of the range; it never raises a signal.
/// Returns 0, or an errno value: EFAULT or EINVAL where such an access is impossible, ENOMEM where
/// memory is missing or not mapped.
[[nodiscard]] int populate(ByteSpan range, PageAccess access) noexcept;

/// False: the kernel reports MADV_POPULATE_WRITE as done without doing it, as qemu-user 7.2 does.
[[nodiscard]] bool populating_works() noexcept;

}  // namespace gantry
