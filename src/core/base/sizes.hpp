#pragma once  // base/sizes.hpp: units of memory, and the page size.

#include <unistd.h>
#include <gantry/types.hpp>

namespace gantry {

inline constexpr Bytes kKiB = Bytes{1} << 10;
inline constexpr Bytes kMiB = Bytes{1} << 20;

/// No machine that Gantry runs on has smaller pages; some have larger ones.
inline constexpr Bytes kSmallestPage = 4096;

/// The page size of this machine.
[[nodiscard]] inline Bytes page_bytes() noexcept {
  return static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
}

}  // namespace gantry
