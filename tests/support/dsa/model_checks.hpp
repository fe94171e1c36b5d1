#pragma once  // tests/support/dsa/model_checks.hpp: what the device refuses before it begins.

#include "device/dsa/descriptor.hpp"
#include "support/dsa/model_memory.hpp"

namespace gantry::dsa {

struct Limits {
  unsigned version = 1;  ///< DSA 1 wants at least two descriptors in a batch, DSA 2 one.
  Bytes max_transfer_bytes = Bytes{2} << 20;
  std::uint32_t max_batch = 32;
};

enum class Place { queue, batch };  ///< Where a descriptor came from.

struct Checked {
  Status status = Status::success;  ///< `success`: it may begin.
  Flags bad_flags = Flags::none;    ///< With `bad_flags`: which.
};

/// The first rule that the descriptor breaks, in the device's order. Writes the reserved bytes of
/// its completion record, to see whether they can be written.
[[nodiscard]] Checked check(const Descriptor& descriptor, const Limits& limits,
                            Place place) noexcept;

/// Whether these two ranges of `bytes` share any byte.
[[nodiscard]] constexpr bool overlaps(Address a, Address b, Bytes bytes) noexcept {
  return a < b ? b - a < bytes : a - b < bytes;
}

}  // namespace gantry::dsa
