#pragma once  // base/crc32c.hpp: the CRC of RFC 3720.

#include <gantry/types.hpp>

namespace gantry {

/// CRC-32C of all bytes of which `seed` is the CRC of those before; 0: there are none.
[[nodiscard]] std::uint32_t crc32c(ConstByteSpan bytes, std::uint32_t seed = 0) noexcept;

}  // namespace gantry
