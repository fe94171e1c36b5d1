#include "core/base/crc32c.hpp"

#include <isa-l/crc.h>

#include <algorithm>

namespace gantry {

std::uint32_t crc32c(ConstByteSpan bytes, std::uint32_t seed) noexcept {
  constexpr Bytes kMost = Bytes{1} << 30;  // ISA-L counts in int
  std::uint32_t crc = ~seed;               // it knows neither const nor RFC 3720's inversions
  while (!bytes.empty()) {
    const ConstByteSpan piece = bytes.first(std::min(bytes.size(), kMost));
    auto* const at =
        const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(piece.data()));
    crc = crc32_iscsi(at, static_cast<int>(piece.size()), crc);
    bytes = bytes.subspan(piece.size());
  }
  return ~crc;
}

}  // namespace gantry
