#pragma once  // engine/dsa/address.hpp: addresses as a device sees them.

#include <gantry/types.hpp>

#include "base/sizes.hpp"

namespace gantry::dsa {

/// A plain number of this process, mapped or not.
using Address = std::uint64_t;

[[nodiscard]] inline Address address_of(const void* memory) noexcept {
  return reinterpret_cast<Address>(memory);
}

/// Bytes from `address` to the end of its page (or from its page's begin to `end`); never zero.
[[nodiscard]] inline Bytes left_in_page(Address address) noexcept {
  return page_bytes() - address % page_bytes();
}
[[nodiscard]] inline Bytes left_before_in_page(Address end) noexcept {
  return (end - 1) % page_bytes() + 1;
}

}  // namespace gantry::dsa
